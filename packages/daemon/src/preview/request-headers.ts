import type { IncomingMessage } from 'node:http'
import type { Target } from '../ports/index.ts'
import type { Passable } from './credential-filter.ts'

/** Hop-by-hop headers apply to one connection and are not forwarded. */
export const hopByHop: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
])

/** Headers that the daemon writes itself. */
const replaced = new Set(['host', 'content-length', 'expect', 'forwarded', 'x-real-ip'])

export interface Passing {
  readonly target: Target
  /** The request without our credentials. */
  readonly passable: Passable
  readonly secure: boolean
  readonly behindProxy: boolean
}

/**
 * The head of a request as the sandbox sees it. The framing is written from the parsed request and never copied, so the
 * two sides cannot disagree about the end of a request. `Host` names the server itself, because development servers
 * check it. The visitor's host is in `X-Forwarded-Host`.
 */
export function requestHeaders(request: IncomingMessage, passing: Passing, websocket = false): string[] {
  const { target, passable } = passing
  const nominated = tokensOf(request.headers.connection)
  const flat = ['Host', `localhost:${target.port}`]
  for (const [name, value] of passable.headers) {
    const small = name.toLowerCase()
    if (hopByHop.has(small) || replaced.has(small) || nominated.has(small)) continue
    if (small.startsWith('x-forwarded-')) continue
    flat.push(name, value)
  }
  // In the path form all previews share a host, so a cookie may belong to another preview.
  if (passable.cookie !== undefined && target.form === 'name') flat.push('Cookie', passable.cookie)
  flat.push(...forwarded(request, passing))
  if (websocket) flat.push('Connection', 'Upgrade', 'Upgrade', 'websocket')
  else flat.push(...framing(request), 'Connection', 'close')
  return flat
}

export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

export function* pairsOf(raw: readonly string[]): Generator<[string, string]> {
  for (let index = 0; index + 1 < raw.length; index += 2) yield [raw[index]!, raw[index + 1]!]
}

export function tokensOf(header: string | undefined): Set<string> {
  return new Set((header ?? '').split(',').map((token) => token.trim().toLowerCase()))
}

function framing({ headers }: IncomingMessage): string[] {
  if (headers['transfer-encoding'] !== undefined) return ['Transfer-Encoding', 'chunked']
  const length = headers['content-length']
  return length === undefined ? [] : ['Content-Length', length]
}

function forwarded(request: IncomingMessage, { target, secure, behindProxy }: Passing): string[] {
  // Only a trusted proxy in front of the daemon may tell the client's address.
  const told = behindProxy ? request.headers['x-forwarded-for'] : undefined
  const from = typeof told === 'string' ? told : request.socket.remoteAddress
  return [
    'X-Forwarded-Host',
    request.headers.host ?? '',
    'X-Forwarded-Proto',
    secure ? 'https' : 'http',
    ...(from === undefined ? [] : ['X-Forwarded-For', from]),
    ...(target.form === 'path' ? ['X-Forwarded-Prefix', `/p/${target.port}-${target.id}`] : []),
  ]
}
