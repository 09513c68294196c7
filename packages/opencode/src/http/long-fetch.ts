import http from 'node:http'
import https from 'node:https'
import { Readable } from 'node:stream'

/**
 * `fetch` without a time limit. Node's own gives up if a response begins after more than 300 seconds, which a prompt
 * can take. The caller's signal ends a request. Redirects are returned, not followed: they could lead credentials away.
 */
export async function longFetch(input: Request | URL | string, init?: RequestInit): Promise<Response> {
  const request = new Request(input, init)
  const body = request.body === null ? undefined : Buffer.from(await request.arrayBuffer())
  const incoming = await send(request, body)
  const headers = new Headers()
  for (let at = 0; at < incoming.rawHeaders.length; at += 2)
    headers.append(incoming.rawHeaders[at]!, incoming.rawHeaders[at + 1]!)
  const status = incoming.statusCode ?? 500
  const hasBody = ![101, 204, 205, 304].includes(status) && request.method !== 'HEAD'
  if (!hasBody) incoming.resume()
  const stream = hasBody ? (Readable.toWeb(incoming) as ReadableStream<Uint8Array>) : null
  return new Response(stream, { status, statusText: incoming.statusMessage, headers })
}

/** Finds a peer that disappeared without closing its connections. */
const keepAliveMs = 30_000

function send(request: Request, body: Buffer | undefined): Promise<http.IncomingMessage> {
  const url = new URL(request.url)
  const { request: start } = url.protocol === 'https:' ? https : http
  const headers = {
    'accept-encoding': 'identity',
    ...Object.fromEntries(request.headers),
    ...(body === undefined ? {} : { 'content-length': String(body.byteLength) }),
  }
  return new Promise((resolve, reject) => {
    // Use a new connection for each request: a kept one may lead to a server that has been replaced.
    const outgoing = start(url, { method: request.method, headers, agent: false, signal: request.signal })
    outgoing.on('socket', (socket) => socket.setKeepAlive(true, keepAliveMs))
    outgoing.on('response', resolve)
    outgoing.on('error', (error) => reject(request.signal.aborted ? request.signal.reason : error))
    outgoing.end(body)
  })
}
