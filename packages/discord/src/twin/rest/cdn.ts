import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Core } from '../core.ts'

/** Serves an attachment. Discord's CDN needs no token. */
export function serveFile(core: Core, request: IncomingMessage, response: ServerResponse, url: URL): void {
  const [, , , id = '', name = ''] = url.pathname.split('/')
  const file = core.world.files.get(id)
  if (!file || encodeURIComponent(file.filename) !== name || request.method !== 'GET') {
    response.writeHead(404, { 'content-type': 'text/plain' }).end('This content is no longer available.')
    return
  }
  core.counters.record.request('GET /attachments/:channel/:attachment/:filename')
  response.writeHead(200, { 'content-type': file.contentType, 'content-length': file.bytes.byteLength })
  response.end(file.bytes)
}
