import type { IncomingMessage } from 'node:http'
import { portOf } from '../shared/request.ts'

/** The port of a sandbox at which its own daemon answers; here we do. */
export const envdPort = 49_983

export interface Routed {
  readonly id: string
  readonly port: number
}

/**
 * Which port of which sandbox a request is for: by its host, `<port>-<id>.<domain>`, or by two headers, which the SDKs send to the one
 * address that they were given. Undefined: the control plane.
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
