import type { IncomingMessage } from 'node:http'

/**
 * Whether a request was meant for this machine. A web page that resolves its own name to 127.0.0.1 sends that name as
 * `Host`, and every page that sends a request with a body names itself as `Origin`.
 */
export function isForLoopback({ headers: { host, origin } }: IncomingMessage): boolean {
  const isLocal = (url: string) => local.has(URL.parse(url)?.hostname ?? '')
  return isLocal(`http://${host ?? ''}`) && (origin === undefined || isLocal(origin))
}

const local = new Set(['localhost', '127.0.0.1', '[::1]'])
