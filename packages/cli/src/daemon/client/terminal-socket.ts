import { SandboxError } from '@sandkasten/sdk'
import type { Connection } from './api.ts'

export type Leaving = { reason: 'exit'; exit_code: number } | { reason: 'left' } | { reason: 'taken' }

const leaveKey = 0x1d // Ctrl-]
const retries = 40
const retryMs = 500

/**
 * Stays connected until the program ends or the user leaves. After a lost connection, reconnects after the last
 * message received, so that output is neither repeated nor lost.
 */
export async function stay(connection: Connection, path: string): Promise<Leaving> {
  const { stdin } = process
  const raw = stdin.isTTY
  if (raw) stdin.setRawMode(true)
  let seen = 0
  try {
    for (let failures = 0; ; ) {
      const visit = await once(connection, `${path}/ws?takeover=1&after=${seen}`, seen)
      if (visit.leaving) return visit.leaving
      failures = visit.seen > seen ? 0 : failures + 1
      seen = visit.seen
      // Gets the error that a WebSocket does not report when it fails to open.
      const terminal = await connection.json<{ status: string }>('GET', path).catch((error: unknown) => {
        if (SandboxError.is(error, 'unavailable')) return undefined
        throw error
      })
      if (failures >= retries || (terminal && failures >= 3))
        throw new SandboxError('connection_lost', 'The connection to the terminal was lost.', {
          hint: 'It may still run: try again with --attach.',
        })
      await new Promise((resolve) => setTimeout(resolve, retryMs))
    }
  } finally {
    if (raw) stdin.setRawMode(false)
    stdin.pause()
  }
}

interface Visited {
  leaving?: Leaving
  seen: number
}

function once(connection: Connection, path: string, from: number): Promise<Visited> {
  return new Promise((resolve) => {
    const { stdin, stdout } = process
    const socket = connection.webSocket(path)
    socket.binaryType = 'arraybuffer'
    let seen = from
    let leaving: Leaving | undefined
    const resize = () => {
      const { columns: cols, rows } = stdout
      if (cols && rows) socket.send(JSON.stringify({ type: 'resize', cols, rows }))
    }
    const type = (data: Buffer) => {
      const at = data.indexOf(leaveKey)
      const typed = at === -1 ? data : data.subarray(0, at)
      if (typed.length > 0) socket.send(typed as Uint8Array<ArrayBuffer>)
      if (at === -1) return
      leaving = { reason: 'left' }
      socket.close(1000)
    }
    // On a terminal, Ctrl-D means end-of-file. A shell that still reads its profile drops it, so it is repeated until
    // the terminal ends.
    let ending: NodeJS.Timeout | undefined
    const end = () => {
      const sendEnd = () => socket.send(Uint8Array.of(4))
      sendEnd()
      ending ??= setInterval(sendEnd, 500)
    }
    socket.onopen = () => {
      resize()
      stdout.on('resize', resize)
      stdin.on('data', type)
      stdin.on('end', end)
      stdin.resume()
    }
    socket.onmessage = ({ data }: { data: unknown }) => {
      if (typeof data !== 'string') {
        seen += 1
        stdout.write(Buffer.from(data as ArrayBuffer))
        return
      }
      const message = JSON.parse(data) as { type: string; oldest?: number; exit_code?: number }
      if (message.type === 'gone' && message.oldest !== undefined) seen = message.oldest - 1
      if (message.type === 'exit') leaving = { reason: 'exit', exit_code: message.exit_code ?? 125 }
    }
    socket.onerror = () => {}
    socket.onclose = ({ code }) => {
      stdout.off('resize', resize)
      stdin.off('data', type)
      stdin.off('end', end)
      clearInterval(ending)
      if (code === 4001) leaving ??= { reason: 'taken' }
      resolve({ seen, leaving })
    }
  })
}
