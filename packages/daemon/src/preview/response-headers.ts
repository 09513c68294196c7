import type { IncomingMessage } from 'node:http'
import type { Target } from '../ports/index.ts'
import { isOurCookie } from './credential-names.ts'
import { hopByHop, pairsOf, tokensOf } from './request-headers.ts'

/** Headers that would affect other host names, other ports or other previews. */
const withheld = new Set([
  'strict-transport-security',
  'public-key-pins',
  'alt-svc',
  'clear-site-data',
  'nel',
  'report-to',
  'reporting-endpoints',
  'origin-agent-cluster',
  // A proxy in front of the daemon would serve a file of its own machine instead of this response.
  'x-accel-redirect',
  'x-sendfile',
  'x-lighttpd-send-file',
  'x-reproxy-url',
  'x-reproxy-file',
])

/** Responses without a body. A length would make the next proxy wait for one, or take the next response for it. */
function isBodiless(status: number): boolean {
  return status < 200 || status === 204 || status === 304
}

/** In the path form all previews share a host, so pages get an opaque origin, without cookies and storage. */
const apart = 'sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads'

/** Filters the head of a sandbox's response, which is not trusted. */
export function responseHeaders(answer: IncomingMessage, target: Target): string[] {
  const nominated = tokensOf(answer.headers.connection)
  const flat: string[] = []
  for (const [name, value] of pairsOf(answer.rawHeaders)) {
    const small = name.toLowerCase()
    if (hopByHop.has(small) || withheld.has(small)) continue
    if (small === 'content-length' && isBodiless(answer.statusCode!)) continue
    if (nominated.has(small) && small !== 'content-length') continue
    if (target.form === 'path' && small === 'referrer-policy') continue
    if (small === 'set-cookie') {
      const cookie = target.form === 'name' ? hostOnly(value) : undefined
      if (cookie !== undefined) flat.push(name, cookie)
    } else flat.push(name, small === 'location' ? location(value, target) : value)
  }
  if (target.form === 'path') flat.push('Content-Security-Policy', apart, 'Referrer-Policy', 'no-referrer')
  else flat.push('Origin-Agent-Cluster', '?1')
  return flat
}

/** Binds a cookie to this one host name. Drops a cookie that looks like one of ours. */
function hostOnly(cookie: string): string | undefined {
  const [pair = '', ...attributes] = cookie.split(';')
  if (isOurCookie(pair)) return undefined
  return [pair, ...attributes.filter((attribute) => !/^\s*domain\s*(=|$)/i.test(attribute))].join(';')
}

/** A server that redirects to localhost means itself, so the visitor stays at the preview's address. */
function location(value: string, { port, prefix }: Target): string {
  const own = new RegExp(`^https?://(?:localhost|127\\.0\\.0\\.1|\\[::1\\]):${port}(?=[/?#]|$)`, 'i')
  const path = own.test(value) ? value.replace(own, '').replace(/^(?!\/)/, '/') : value
  return path.startsWith('/') && !path.startsWith('//') ? `${prefix}${path}` : path
}
