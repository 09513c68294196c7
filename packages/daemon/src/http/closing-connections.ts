import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

/** How long a client may keep sending after its response. */
const lingerMs = 1_000

/**
 * Closes a connection after the written data. Closing at once would reset the connection of a client that is still
 * sending, and a reset discards the unread response. So the rest of the request is read and discarded for a short time.
 */
export function closeSoon(socket: Duplex): void {
  if (socket.destroyed) return
  socket.end()
  // Stop parsing data as requests.
  socket.removeAllListeners('data').on('data', () => {})
  socket.resume()
  const timer = setTimeout(() => socket.destroy(), lingerMs)
  socket.once('end', () => socket.destroy())
  socket.once('close', () => clearTimeout(timer))
}

/** Writes a whole response to a socket that has no `ServerResponse`, such as a refused upgrade, and closes it. */
export function answerAndClose(socket: Duplex, { status, title, type, body, headers = {} }: RawAnswer): void {
  if (!socket.writable) return void socket.destroy()
  const all = {
    ...(type === undefined ? {} : { 'content-type': type }),
    'content-length': Buffer.byteLength(body),
    ...headers,
    connection: 'close',
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.on('error', () => socket.destroy())
  socket.write(`HTTP/1.1 ${status} ${title}\r\n${lines.join('')}\r\n${body}`)
  closeSoon(socket)
}

export interface RawAnswer {
  readonly status: number
  readonly title: string
  readonly type?: string
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Like `closesAfter`, right after the head was parsed: a body in the same packet arrives one tick later. */
export async function refusalCloses(request: IncomingMessage): Promise<boolean> {
  if (!request.complete) await new Promise(setImmediate)
  return closesAfter(request)
}

/** Returns whether the connection closes after the response, because the client has not sent its whole body. */
export function closesAfter(request: IncomingMessage): boolean {
  if (request.complete) return false
  const { socket } = request
  // Node calls this when the response is sent with `Connection: close`.
  socket.destroySoon = () => closeSoon(socket)
  return true
}

/** After any response, an unread body keeps its connection open only for a short time. */
export function limitUnreadBodies(server: Server): void {
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    response.once('finish', () => {
      const { socket } = request
      if (request.complete || socket.destroyed) return
      const timer = setTimeout(() => socket.destroy(), lingerMs)
      const settle = () => {
        clearTimeout(timer)
        request.off('end', settle)
        // The connection may serve many more requests.
        socket.off('close', settle)
      }
      request.once('end', settle)
      socket.once('close', settle)
    })
  })
}
