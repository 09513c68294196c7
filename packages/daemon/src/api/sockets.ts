import { once } from 'node:events'
import { SandboxError } from '@sandkasten/sdk'
import type { WebSocket } from 'ws'

const beatMs = 30_000
const mostBytes = 1_048_576
const enoughBytes = 262_144

/** A client whose machine has vanished does not say so: one that answers no ping is let go. */
export function watchOver(socket: WebSocket): void {
  let answered = true
  socket.on('pong', () => {
    answered = true
  })
  const beat = setInterval(() => {
    // One that we do not read at the moment cannot be heard.
    if (!answered && !socket.isPaused) return socket.terminate()
    answered = false
    socket.ping()
  }, beatMs)
  socket.once('close', () => clearInterval(beat))
}

/** Says goodbye when the daemon ends, or the key that it was opened with. */
export function closeWith(socket: WebSocket, ending: AbortSignal): void {
  const close = () => {
    if (SandboxError.is(ending.reason, 'unauthenticated')) socket.close(1008, 'the key is not valid any more')
    else socket.close(1001, 'the daemon is ending')
  }
  if (ending.aborted) close()
  else ending.addEventListener('abort', close, { once: true })
}

/** Waits for a client that takes less than it is sent. */
export async function drained(socket: WebSocket, signal: AbortSignal): Promise<void> {
  if (socket.bufferedAmount <= mostBytes) return
  while (!signal.aborted && socket.readyState === socket.OPEN && socket.bufferedAmount > enoughBytes) {
    const { _socket: raw } = socket as unknown as { _socket: NodeJS.EventEmitter }
    await once(raw, 'drain', { signal }).catch(() => {})
  }
}

/** For what a client sends to be written somewhere: one that sends more than is taken there is not read meanwhile. */
export function atItsPace(socket: WebSocket): (bytes: number, written: Promise<unknown>) => void {
  let waiting = 0
  return (bytes, written) => {
    waiting += bytes
    if (waiting > mostBytes) socket.pause()
    const done = () => {
      waiting -= bytes
      if (waiting <= mostBytes) socket.resume()
    }
    // What is typed into a terminal that is ending is lost, as it would be at any other.
    written.then(done, done)
  }
}
