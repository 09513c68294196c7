import { type ProcessEvent, SandboxError } from '@sandkasten/sdk'
import { describe, expect, it } from 'vitest'
import type { WebSocket } from 'ws'
import type { FrontPlace } from '../../front.ts'
import { Ptys } from './pty.ts'

type Output = (after: number) => AsyncGenerator<ProcessEvent>

/** Joins a terminal with this output. Returns what the client receives, and how the connection ends. */
async function joined(output: Output): Promise<{ said: string; error?: string }> {
  const terminal = { output: ({ after = 0 }) => output(after) }
  const terminals = {
    attach: (_: unknown, __: unknown, ___: unknown, work: (found: unknown) => unknown) => work(terminal),
    ended: async () => {},
  }
  const place = { services: { sessions: { terminals } } } as unknown as FrontPlace
  const seen = { said: '' }
  const socket = {
    send: (data: string | Buffer) => {
      seen.said += String(data)
    },
    on() {},
    close() {},
    bufferedAmount: 0,
  } as unknown as WebSocket
  const serve = await new Ptys(place).connect({} as never, 'sandbox', 'terminal')
  return serve(socket, new AbortController().signal).then(
    () => seen,
    (error: SandboxError) => ({ ...seen, error: error.code }),
  )
}

const said = (seq: number, text: string): ProcessEvent => ({ seq, type: 'stdout', data: Buffer.from(text) })
const gone = (oldest: number) => new SandboxError('gone', 'Dropped.', { details: { oldest } })

describe('joining a terminal', () => {
  it('starts with the oldest kept output', async () => {
    const { said: text } = await joined(async function* (after) {
      if (after < 6) throw gone(7)
      yield said(7, 'newest')
      yield { seq: 8, type: 'exit', exitCode: 3, timedOut: false, durationMs: 1 }
    })
    expect(text).toContain('newest{"type":"control","status":"exited","exitCode":3}')
  })

  it('ends with its sandbox, without an exit', async () => {
    const { said: text, error } = await joined(async function* () {
      yield said(1, 'last words')
    })
    expect(text).toContain('last words')
    expect(error).toBe('interrupted')
  })

  it('does not retry forever when the kept output disappears', async () => {
    const { error } = await joined(async function* (after) {
      if (after > 7) yield said(after + 1, 'never')
      throw gone(8)
    })
    expect(error).toBe('gone')
  })
})
