import type { IncomingMessage } from 'node:http'
import { type KeyRing, plainKey } from '../keys/index.ts'
import { isOurCookie, tokenHeaders, tokenQueries } from './credential-names.ts'
import { pairsOf } from './request-headers.ts'

/** The parts of a request that the sandbox may see. */
export interface Passable {
  /** Path and query. */
  readonly path: string
  /** All headers except cookies, in the order they were sent. */
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  readonly cookie?: string
}

type IsKey = (text: string) => Promise<boolean>

/** Headers that only the daemon and its fronts read. */
const alwaysRemoved: ReadonlySet<string> = new Set([
  ...tokenHeaders,
  'e2b-traffic-access-token',
  'e2b-sandbox-id',
  'e2b-sandbox-port',
  'open-sandbox-api-key',
  'x-execd-access-token',
])

/** Headers in which the API or a front accepts a key. Applications use the same names for their own. */
const mayCarryKey: ReadonlySet<string> = new Set(['authorization', 'x-api-key', 'x-access-token'])

/** The forms of keys and tokens that the daemon issues: API keys (also in E2B's form), port tokens, signed links. */
const issued =
  /sk-sandkasten-|e2b_736b2d73616e646b617374656e2d|\bpt-[a-z2-7]{32}(?![a-z2-7])|\bl1\.[0-9a-z]{1,9}\.[\w-]{43}(?![\w-])/i

/** An access token of a front: the key's id, for E2B also the sandbox's id, and a signature. */
const accessToken = /^[a-z0-9]{1,32}(\.[a-z0-9]{1,32})?\.[\w-]{43}$/

const keyProtocol = 'sandkasten.key.'

/** One request makes at most this many lookups. A header that would need more is removed unseen. */
const mostLookups = 16

/**
 * Removes the daemon's own credentials from a request before it is passed to a sandbox. Every listener that forwards
 * requests uses this filter: previews and the ports of fronts.
 *
 * Credentials of the application itself are passed on: an `Authorization`, API key or cookie that is not ours.
 */
export async function withoutCredentials(
  request: IncomingMessage,
  path: string,
  keys: Pick<KeyRing, 'isKey'>,
): Promise<Passable> {
  const headers: Array<readonly [string, string]> = []
  let lookups = 0
  const isOurKey: IsKey = async (text) => ++lookups > mostLookups || keys.isKey(text)
  for (const [name, value] of pairsOf(request.rawHeaders)) {
    // Servers behind CGI or WSGI read `X_API_KEY` and `X-API-Key` as the same header.
    const plain = name.toLowerCase().replaceAll('_', '-')
    if (plain === 'cookie' || alwaysRemoved.has(plain)) continue
    if (plain === 'sec-websocket-protocol') {
      const offered = withoutKeyProtocols(value)
      if (offered !== '') headers.push([name, offered])
      continue
    }
    if (containsIssued(value)) continue
    if (mayCarryKey.has(plain) && (await carriesKey(value, isOurKey))) continue
    headers.push([name, value])
  }
  const cookie = withoutOurCookies(request.headers.cookie)
  return { path: withoutTokens(path), headers, cookie: cookie || undefined }
}

/** Removes our parameters from a query and leaves every other byte as it was sent. */
export function withoutTokens(url: string): string {
  const at = url.indexOf('?')
  if (at === -1) return url
  const kept = url
    .slice(at + 1)
    .split('&')
    .filter((part) => !isTokenParameter(part) && !containsIssued(part))
  return kept.length === 0 ? url.slice(0, at) : `${url.slice(0, at)}?${kept.join('&')}`
}

export function isTokenParameter(part: string): boolean {
  const name = decoded(part.split('=', 1)[0]!).toLowerCase()
  return tokenQueries.some((token) => token.toLowerCase() === name)
}

function withoutOurCookies(header: string | undefined): string {
  return (header ?? '')
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part !== '' && !isOurCookie(part) && !containsIssued(part))
    .join('; ')
}

function withoutKeyProtocols(value: string): string {
  return value
    .split(',')
    .map((protocol) => protocol.trim())
    .filter((protocol) => !protocol.toLowerCase().startsWith(keyProtocol) && !containsIssued(protocol))
    .join(', ')
}

function containsIssued(text: string): boolean {
  return issued.test(text) || (text.includes('%') && issued.test(decoded(text)))
}

/** `Bearer <key>`, `<key>`, `Basic <base64 of user:password>` and so on. */
async function carriesKey(value: string, isKey: IsKey): Promise<boolean> {
  for (const word of value.split(/[\s,]+/)) {
    for (const text of [word, plainKey(word), ...basicParts(word)]) {
      if (accessToken.test(text) || containsIssued(text)) return true
      if (await isKey(text)) return true
    }
  }
  return false
}

function basicParts(word: string): string[] {
  if (!/^[\w+/-]{8,}=*$/.test(word)) return []
  const text = Buffer.from(word, 'base64').toString('latin1')
  const at = text.indexOf(':')
  return at === -1 ? [] : [text.slice(0, at), text.slice(at + 1)]
}

function decoded(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
}
