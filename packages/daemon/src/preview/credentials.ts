import type { IncomingMessage } from 'node:http'
import type { Target } from '../ports/index.ts'

/** Ours, and those in which clients of vendors whose wire we speak bring a token. */
export const tokenHeaders: readonly string[] = ['x-sandkasten-token', 'x-daytona-preview-token']
const tokenQueries: readonly string[] = ['sandkasten_token', 'DAYTONA_SANDBOX_AUTH_KEY']

/** What a visitor's request brings to be let in, and what is left of it for the sandbox, which sees none of that. */
export interface Brought {
  /** Said on purpose: in a header, in the query, in the path. */
  readonly tokens: readonly string[]
  /** Brought along by a browser, from a link that was followed before. */
  readonly cookies: readonly string[]
  /** API keys, as headers that say so. */
  readonly keys: readonly string[]
  readonly queryToken?: string
  /** The path and query without ours. */
  readonly path: string
  /** The cookies without ours. */
  readonly cookieHeader?: string
}

/** `__Host-` binds it to the one name, over TLS: no neighbour can set it. */
export function cookieName(secure: boolean): string {
  return secure ? '__Host-sandkasten-preview' : 'sandkasten-preview'
}

export function broughtBy(request: IncomingMessage, target: Target, secure: boolean): Brought {
  const { headers } = request
  const { path, token: queryToken } = withoutToken(target.rest)
  const cookies = cookiesOf(headers.cookie)
  const ours = cookies.filter(({ name }) => name === cookieName(secure)).map(({ value }) => value)
  const others = cookies.filter(({ name }) => !isOurs(name)).map(({ text }) => text)
  const given = tokenHeaders.flatMap((name) => {
    const header = headers[name]
    return typeof header === 'string' ? [header] : []
  })
  return {
    tokens: [...given, ...(queryToken ? [queryToken] : []), ...(target.token ? [target.token] : [])],
    cookies: target.form === 'name' && ownPage(request) ? ours : [],
    keys: [
      ...given.map((token) => `Bearer ${token}`),
      ...(headers.authorization ? [headers.authorization] : []),
    ],
    ...(queryToken ? { queryToken } : {}),
    path: path.startsWith('/') ? path : `/${path}`,
    ...(others.length > 0 && target.form === 'name' ? { cookieHeader: others.join('; ') } : {}),
  }
}

/** Neither sandbox nor visitor may use these names. */
export function isOurs(cookie: string): boolean {
  return cookie === cookieName(true) || cookie === cookieName(false)
}

/** Removes our parameter, and leaves every other byte as it was sent. */
function withoutToken(url: string): { path: string; token?: string } {
  const at = url.indexOf('?')
  if (at === -1) return { path: url }
  const parts = url.slice(at + 1).split('&')
  const isToken = (part: string) => tokenQueries.some((name) => part.startsWith(`${name}=`))
  const token = parts.find(isToken)?.replace(/^[^=]*=/, '')
  if (token === undefined) return { path: url }
  const query = parts.filter((part) => !isToken(part)).join('&')
  return { path: `${url.slice(0, at)}${query === '' ? '' : `?${query}`}`, token }
}

function cookiesOf(header: string | undefined): Array<{ name: string; value: string; text: string }> {
  return (header ?? '')
    .split(';')
    .map((part) => part.trim())
    .filter((text) => text !== '')
    .map((text) => {
      const at = text.indexOf('=')
      return at === -1
        ? { name: text, value: '', text }
        : { name: text.slice(0, at).trim(), value: text.slice(at + 1).trim(), text }
    })
}

/**
 * A browser sends cookies also with what a page of another sandbox makes it ask for. So they count only for requests of the
 * preview's own pages, and for links that somebody follows.
 */
function ownPage({ headers, method }: IncomingMessage): boolean {
  const { origin, host } = headers
  if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`) return false
  const site = headers['sec-fetch-site']
  if (site === undefined || site === 'same-origin' || site === 'none') return true
  return (
    method === 'GET' && headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document'
  )
}
