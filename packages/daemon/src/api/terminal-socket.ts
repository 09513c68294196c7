import { SandboxError, type SandboxTerminal } from '@sandkasten/sdk'
import type { WebSocket } from 'ws'
import { z } from 'zod'
import type { Services } from '../http/services.ts'
import { atItsPace, closeWith, drained, watchOver } from '../http/websockets.ts'
import type { SocketRoute } from './upgrades.ts'

/**
 * A terminal over a WebSocket.
 *
 *     client ──► binary: input            text: {"type":"resize",…}  {"type":"signal",…}
 *     server ──► binary: output, one message per event; the first has the number `next` of {"type":"ready","next":1}
 *                text: {"type":"gone","oldest":n}  {"type":"exit","exit_code":0}
 *
 * To resume after a disconnect, connect with `?after=` and the number of the last message received. A second client
 * gets 409. With `takeover=1` it takes the terminal over, and the first connection is closed with 4001.
 */
export function terminalSocket({ sessions }: Services): SocketRoute {
  const holders = new Map<string, WebSocket>()
  return {
    id: 'connectTerminal',
    path: /^\/v1\/sessions\/(?<id>[^/]+)\/terminals\/(?<terminal>[^/]+)\/ws$/,
    access: 'exec',
    async connect({ caller, params, query, signal }) {
      const { id, terminal: terminalId } = params as { id: string; terminal: string }
      const key = `${id}/${terminalId}`
      const after = Number(query.get('after') ?? 0)
      if (!Number.isSafeInteger(after) || after < 0)
        throw new SandboxError('invalid_argument', '`after` is not a number.')
      const terminal = await sessions.terminals.attach(caller, id, terminalId, async (terminal) => terminal)
      const takeover = query.get('takeover') === '1'
      if (holders.has(key) && !takeover)
        throw new SandboxError('conflict', 'Another client is connected to this terminal.', {
          hint: 'Connect with takeover=1 to take the terminal over.',
        })
      return async (socket) => {
        holders.get(key)?.close(4001, 'taken over')
        holders.set(key, socket)
        const leaving = new AbortController()
        const leave = () => {
          leaving.abort()
          if (holders.get(key) === socket) holders.delete(key)
        }
        socket.once('close', leave)
        watchOver(socket)
        closeWith(socket, signal)
        const input = atItsPace(socket)
        socket.on('message', (data, binary) => {
          sessions.terminals.touch(id)
          const work = received(socket, terminal, data as Buffer, binary)
          if (work) input((data as Buffer).length, work)
        })
        const exit = await send(socket, terminal, after, leaving.signal)
        if (exit) await sessions.terminals.ended(id, terminalId, exit)
      }
    },
  }
}

const control = z.discriminatedUnion('type', [
  z.object({ type: z.literal('resize'), cols: z.int().min(1).max(1000), rows: z.int().min(1).max(1000) }),
  z.object({
    type: z.literal('signal'),
    signal: z.enum(['SIGINT', 'SIGTERM', 'SIGKILL', 'SIGHUP', 'SIGQUIT']),
  }),
  z.object({ type: z.literal('input'), data: z.string() }),
])

function received(
  socket: WebSocket,
  terminal: SandboxTerminal,
  data: Buffer,
  binary: boolean,
): Promise<unknown> | undefined {
  if (binary) return terminal.write(data)
  const message = control.safeParse(parsed(data.toString()))
  if (!message.success) return void socket.close(4400, 'not understood')
  if (message.data.type === 'resize') return terminal.resize(message.data)
  if (message.data.type === 'signal') return terminal.kill(message.data.signal)
  return terminal.write(message.data.data)
}

/** Sends output after an event and returns the exit, if it came. A slow client slows the program. */
async function send(
  socket: WebSocket,
  terminal: SandboxTerminal,
  after: number,
  signal: AbortSignal,
): Promise<object | undefined> {
  socket.send(JSON.stringify({ type: 'ready', next: after + 1 }))
  let from = after
  for (;;) {
    try {
      for await (const event of terminal.output({ after: from, signal })) {
        if (event.type !== 'exit') {
          socket.send(event.data, { binary: true })
          await drained(socket, signal)
          continue
        }
        const exit = { exit_code: event.exitCode, signal: event.signal }
        socket.send(JSON.stringify({ type: 'exit', seq: event.seq, ...exit }))
        socket.close(1000, 'exit')
        return exit
      }
      return undefined
    } catch (error) {
      if (signal.aborted) return undefined
      const oldest = SandboxError.is(error, 'gone') ? error.details.oldest : undefined
      if (typeof oldest !== 'number' || oldest - 1 <= from) throw error
      from = oldest - 1
      socket.send(JSON.stringify({ type: 'gone', oldest }))
    }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
