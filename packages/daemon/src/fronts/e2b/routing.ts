import type { IncomingMessage } from 'node:http'
import { portOf } from '../shared/request.ts'

/** E2B's daemon in the sandbox listens on this port. Here the front answers instead. */
export const envdPort = 49_983

/** A request whose route was parsed when it arrived. */
export interface RoutedRequest extends IncomingMessage {
  e2bRoute?: Routed
}

export interface Routed {
  readonly id: string
  readonly port: number
}

/**
 * The sandbox and port that a request is for: from its host, `<port>-<id>.<domain>`, or from the two headers that SDKs
 * send when they know a single address. Undefined means the control plane.
 */
export function routeOf({ headers }: IncomingMessage, domain: string): Routed | undefined {
  const host = /^(\d{1,5})-([a-z0-9]{1,60})\.(.+)$/.exec((headers.host ?? '').toLowerCase())
  if (host && withoutPort(host[3]!) === withoutPort(domain)) return routed(host[2]!, host[1]!)
  const { 'e2b-sandbox-id': id, 'e2b-sandbox-port': port = String(envdPort) } = headers
  return typeof id === 'string' && typeof port === 'string' ? routed(id, port) : undefined
}

function routed(id: string, text: string): Routed | undefined {
  const port = portOf(text)
  return port === undefined ? undefined : { id, port }
}

function withoutPort(host: string): string {
  return host.replace(/:\d+$/, '')
}
