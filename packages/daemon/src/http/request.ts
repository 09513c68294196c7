import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

/** The client's own request id if it is safe in logs and headers, otherwise a new one. */
export function requestId(header: string | string[] | undefined): string {
  return typeof header === 'string' && /^[\w.-]{1,100}$/.test(header) ? header : randomUUID()
}

/** Splits path and query. Does not use `URL`, which reads `//` as the start of a host, or throws. */
export function addressOf({ url = '/' }: IncomingMessage): { path: string; query: URLSearchParams } {
  const at = url.indexOf('?')
  const path = at === -1 ? url : url.slice(0, at)
  return { path, query: new URLSearchParams(at === -1 ? '' : url.slice(at)) }
}
