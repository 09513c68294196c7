import type { IncomingMessage, ServerResponse } from 'node:http'

/** A server with a name of its own. Without `authorization` or `x-api-key` the request does not get this far. */
export type Site = (request: IncomingMessage, body: Buffer, response: ServerResponse) => void

export function text(response: ServerResponse, body: string | Buffer, type = 'application/json'): void {
  response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) })
  response.end(body)
}

export function missing(response: ServerResponse): void {
  response.writeHead(404, { 'content-length': 0 })
  response.end()
}
