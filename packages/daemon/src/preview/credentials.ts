import type { IncomingMessage } from 'node:http'
import type { Target } from '../ports/index.ts'
import { isTokenParameter, withoutTokens } from './credential-filter.ts'
import { cookieName, tokenHeaders } from './credential-names.ts'

/** The credentials of a visitor's request. */
export interface Brought {
  /** Tokens in a header, in the query or in the path. */
  readonly tokens: readonly string[]
  /** Cookies that a browser got when the user followed a link. */
  readonly cookies: readonly string[]
  /** API keys in headers. */
  readonly keys: readonly string[]
  readonly queryToken?: string
  /** Path and query without our credentials. */
  readonly path: string
}

export function broughtBy(request: IncomingMessage, target: Target, secure: boolean): Brought {
  const { headers } = request
  const path = withoutTokens(target.rest)
  const queryToken = queryTokenOf(target.rest)
  const ours = cookiesOf(headers.cookie)
    .filter(({ name }) => name === cookieName(secure))
    .map(({ value }) => value)
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
    queryToken,
    path: path.startsWith('/') ? path : `/${path}`,
  }
}

function queryTokenOf(url: string): string | undefined {
  const query = url.slice(url.indexOf('?') + 1)
  if (query === url) return undefined
  return query
    .split('&')
    .find(isTokenParameter)
    ?.replace(/^[^=]*=/, '')
}

function cookiesOf(header: string | undefined): Array<{ name: string; value: string }> {
  return (header ?? '')
    .split(';')
    .map((part) => part.trim())
    .filter((text) => text !== '')
    .map((text) => {
      const at = text.indexOf('=')
      return at === -1
        ? { name: text, value: '' }
        : { name: text.slice(0, at).trim(), value: text.slice(at + 1).trim() }
    })
}

/**
 * A browser also sends cookies with requests that a page of another sandbox causes. So cookies count only for requests
 * of the preview's own pages, and for links that the user follows.
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
