import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import https from 'node:https'
import type { Duplex } from 'node:stream'
import { parsed } from './paths.ts'

/** A server in a sandbox, and the headers that open it. */
export interface Upstream {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** Of one connection, or of the way here. */
const notForwarded = new Set(
  'accept-encoding authorization connection host keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade'.split(
    ' ',
  ),
)

export interface ForwardOptions {
  /** The body, if it was read. */
  readonly body?: unknown
  /** Changes a successful answer, which is JSON. */
  readonly change?: ((value: unknown, headers: http.IncomingHttpHeaders) => unknown) | undefined
  readonly changeHeaders?: (headers: http.OutgoingHttpHeaders) => http.OutgoingHttpHeaders
}

/** Sends a request on. Rejects if the server does not answer; an answer that is cut off is cut off here, too. */
export async function forward(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  upstream: Upstream,
  path: string,
  { body, change, changeHeaders = (headers) => headers }: ForwardOptions = {},
): Promise<void> {
  const text = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
  const length: Record<string, string> =
    text === undefined ? {} : { 'content-length': String(text.byteLength) }
  const request = requestTo(upstream, path, incoming, length)
  outgoing.once('close', () => request.destroy())
  if (text === undefined) incoming.pipe(request)
  else request.end(text)
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve).once('error', reject)
  })
  request.on('error', () => outgoing.destroy())
  if (change !== undefined && answer.statusCode === 200) {
    const whole = await bytesOf(answer)
    const value = parsed(whole)
    const changed = value === undefined ? whole : Buffer.from(JSON.stringify(change(value, answer.headers)))
    const headers = changeHeaders({ ...cleaned(answer), 'content-length': changed.byteLength })
    outgoing.writeHead(200, headers).end(changed)
    return
  }
  outgoing.writeHead(answer.statusCode ?? 502, changeHeaders(cleaned(answer)))
  await new Promise<void>((resolve) => {
    answer.once('error', () => outgoing.destroy())
    outgoing.once('close', resolve)
    answer.pipe(outgoing)
  })
}

const mostBytes = 256 * 1024 ** 2

export async function bytesOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of message as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    length += chunk.byteLength
    if (length > mostBytes) throw new Error('The message is larger than 256 MiB.')
  }
  return Buffer.concat(chunks)
}

/** Connects a WebSocket. */
export function forwardUpgrade(
  incoming: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  upstream: Upstream,
  path: string,
): void {
  const request = requestTo(upstream, path, incoming, { connection: 'Upgrade', upgrade: 'websocket' })
  request.once('upgrade', (answer, other, rest) => {
    const lines = [`HTTP/1.1 101 Switching Protocols`]
    for (let at = 0; at < answer.rawHeaders.length; at += 2)
      lines.push(`${answer.rawHeaders[at]}: ${answer.rawHeaders[at + 1]}`)
    socket.write(`${lines.join('\r\n')}\r\n\r\n`)
    socket.write(rest)
    other.write(head)
    for (const [from, to] of [
      [socket, other],
      [other, socket],
    ] as const) {
      from.on('error', () => to.destroy())
      from.on('close', () => to.destroy())
      from.pipe(to)
    }
  })
  request.once('response', (answer) => {
    answer.resume()
    refuseUpgrade(socket, answer.statusCode ?? 502)
  })
  request.once('error', () => refuseUpgrade(socket, 502))
  request.end()
}

export function refuseUpgrade(socket: Duplex, status: number): void {
  socket.end(`HTTP/1.1 ${status} ${http.STATUS_CODES[status] ?? ''}\r\ncontent-length: 0\r\n\r\n`)
}

function requestTo(
  { url, headers }: Upstream,
  path: string,
  incoming: IncomingMessage,
  more: Record<string, string> = {},
) {
  const base = new URL(url)
  const { request } = base.protocol === 'https:' ? https : http
  const target = new URL(`${base.origin}${base.pathname.replace(/\/$/, '')}${path}`)
  for (const [name, value] of base.searchParams) target.searchParams.set(name, value)
  // A new connection for each: a kept one may lead to a server that has been replaced.
  return request(target, {
    method: incoming.method,
    headers: { ...cleaned(incoming), ...headers, ...more },
    agent: false,
  })
}

function cleaned({ headers }: IncomingMessage): http.OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !notForwarded.has(name)))
}
