import { once } from 'node:events'
import { SandboxError } from '@sandkasten/sdk'
import { type ServerOptions, type WebSocket, WebSocketServer } from 'ws'

const beatMs = 30_000
const mostBytes = 1_048_576
const enoughBytes = 262_144

/** A WebSocket server that limits buffered messages, fragments and pongs of a client. */
export function socketServer(handleProtocols: ServerOptions['handleProtocols']): WebSocketServer {
  return new WebSocketServer({
    noServer: true,
    maxPayload: 1_048_576,
    maxFragments: 1024,
    maxBufferedChunks: 16_384,
    clientTracking: false,
    // See `answerPings`.
    autoPong: false,
    handleProtocols,
  })
}

/**
 * Answers only the newest ping, after the previous pong was sent (RFC 6455, 5.5.3). So a client that never reads costs
 * one pong.
 */
function answerPings(socket: WebSocket): void {
  let sending = false
  let newest: Buffer | undefined
  const answer = (data: Buffer) => {
    sending = true
    socket.pong(data, undefined, () => {
      sending = false
      const next = newest
      newest = undefined
      if (next && socket.readyState === socket.OPEN) answer(next)
    })
  }
  socket.on('ping', (data: Buffer) => {
    if (sending) newest = data
    else answer(data)
  })
}

/** Ends connections that do not answer pings, because a lost machine does not close them. */
export function watchOver(socket: WebSocket): void {
  answerPings(socket)
  let answered = true
  socket.on('pong', () => {
    answered = true
  })
  const beat = setInterval(() => {
    // A paused socket cannot deliver pongs.
    if (!answered && !socket.isPaused) return socket.terminate()
    answered = false
    socket.ping()
  }, beatMs)
  socket.once('close', () => clearInterval(beat))
}

/** Closes the socket when the daemon stops, or its key is no longer valid. */
export function closeWith(socket: WebSocket, ending: AbortSignal): void {
  const close = () => {
    if (SandboxError.is(ending.reason, 'unauthenticated')) socket.close(1008, 'the key is not valid any more')
    else socket.close(1001, 'the daemon is ending')
  }
  if (ending.aborted) close()
  else ending.addEventListener('abort', close, { once: true })
}

/** Waits until a slow client has read enough. */
export async function drained(socket: WebSocket, signal: AbortSignal): Promise<void> {
  if (socket.bufferedAmount <= mostBytes) return
  while (!signal.aborted && socket.readyState === socket.OPEN && socket.bufferedAmount > enoughBytes) {
    const { _socket: raw } = socket as unknown as { _socket: NodeJS.EventEmitter }
    await once(raw, 'drain', { signal }).catch(() => {})
  }
}

/** Pauses a client that sends faster than its data is written. */
export function atItsPace(socket: WebSocket): (bytes: number, written: Promise<unknown>) => void {
  let waiting = 0
  return (bytes, written) => {
    waiting += bytes
    if (waiting > mostBytes) socket.pause()
    const done = () => {
      waiting -= bytes
      if (waiting <= mostBytes) socket.resume()
    }
    // Input to a terminal that is ending is lost.
    written.then(done, done)
  }
}
