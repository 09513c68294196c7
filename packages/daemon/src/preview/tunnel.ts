import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import type { ReachedPort, Target } from '../ports/index.ts'
import { dial, dialError } from './dial.ts'
import { pairsOf } from './request-headers.ts'
import { responseHeaders } from './response-headers.ts'

export interface Tunnelling {
  readonly port: ReachedPort
  readonly target: Target
  readonly path: string
  readonly headers: readonly string[]
  touch(): void
}

/**
 * Forwards a WebSocket. Bytes pass unread only after the sandbox has responded with 101. Before that, a tunnel would let
 * a visitor smuggle a second request. Any other response is forwarded, and the connection is closed after it.
 */
export async function tunnel(
  socket: Duplex,
  head: Buffer,
  { port, target, path, headers, touch }: Tunnelling,
): Promise<void> {
  const { outgoing, stream } = await dial(port, { method: 'GET', path, headers })
  return new Promise((resolve, reject) => {
    let begun = false
    const over = (error?: unknown) => {
      outgoing.destroy()
      stream.destroy()
      if (error && !begun && !socket.destroyed) return reject(error)
      socket.destroy()
      resolve()
    }
    socket.once('close', () => over())
    outgoing.on('error', (error) => over(dialError(error, target.port)))
    outgoing.on('upgrade', (answer, inside, first) => {
      if (answer.statusCode !== 101 || answer.headers.upgrade?.toLowerCase() !== 'websocket') {
        inside.destroy()
        return over(new SandboxError('provider_error', 'The sandbox switched to another protocol.'))
      }
      begun = true
      socket.write(
        headText('101 Switching Protocols', [
          ...withoutLength(responseHeaders(answer, target)),
          'Connection',
          'Upgrade',
          'Upgrade',
          'websocket',
        ]),
      )
      if (first.length > 0) socket.write(first)
      if (head.length > 0) inside.write(head)
      socket.on('data', touch)
      pipeline(socket, inside, () => {})
      pipeline(inside, socket, () => over())
    })
    outgoing.on('response', (answer) => {
      begun = true
      const status = `${answer.statusCode} ${answer.statusCode === 426 ? 'Upgrade Required' : 'Refused'}`
      socket.write(headText(status, [...responseHeaders(answer, target), 'Connection', 'close']))
      pipeline(answer, socket, () => over())
    })
    if (socket.destroyed) return over()
    outgoing.end()
  })
}

function withoutLength(flat: readonly string[]): string[] {
  return [...pairsOf(flat)].filter(([name]) => name.toLowerCase() !== 'content-length').flat()
}

/** Names and values come from a parser that rejects line breaks. */
function headText(status: string, flat: readonly string[]): Buffer {
  const lines = [...pairsOf(flat)].map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`HTTP/1.1 ${status}\r\n${lines.join('')}\r\n`, 'latin1')
}

/** Only WebSockets are tunnelled, because protocols such as `h2c` would hide requests from the daemon. */
export function asksForWebSocket({ method, headers }: IncomingMessage): boolean {
  return (
    method === 'GET' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    headers['transfer-encoding'] === undefined &&
    Number(headers['content-length'] ?? 0) === 0
  )
}
