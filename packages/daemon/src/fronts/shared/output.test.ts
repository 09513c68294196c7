import { type ProcessEvent, SandboxError } from '@sandkasten/sdk'
import { describe, expect, it } from 'vitest'
import { wholeOutput } from './output.ts'

const never = new AbortController().signal
const said = (seq: number): ProcessEvent => ({ seq, type: 'stdout', data: new Uint8Array([seq]) })
const exit = { seq: 9, type: 'exit', exitCode: 0, timedOut: false, durationMs: 1 } as ProcessEvent

async function seqs(output: AsyncIterable<ProcessEvent>): Promise<number[]> {
  const all: number[] = []
  for await (const { seq } of output) all.push(seq)
  return all
}

function gone(oldest?: number): SandboxError {
  return new SandboxError('gone', 'It was dropped.', { details: oldest === undefined ? {} : { oldest } })
}

describe('output to its exit', () => {
  it('continues with the oldest kept event after each gap', async () => {
    const asked: number[] = []
    const open = async function* (after: number) {
      asked.push(after)
      if (after === 0) throw gone(3)
      if (after === 2) {
        yield said(3)
        throw gone(7)
      }
      yield said(7)
      yield exit
      throw new Error('asked for more than there is')
    }
    expect(await seqs(wholeOutput(open, never))).toEqual([3, 7, 9])
    expect(asked).toEqual([0, 2, 6])
  })

  it('ends when nothing was kept, and fails instead of looping', async () => {
    const failing = (error: Error) =>
      async function* (): AsyncGenerator<ProcessEvent> {
        yield* []
        throw error
      }
    expect(await seqs(wholeOutput(failing(gone()), never))).toEqual([])
    await expect(seqs(wholeOutput(failing(gone(1)), never))).rejects.toMatchObject({ code: 'gone' })
    await expect(seqs(wholeOutput(failing(new Error('broken')), never))).rejects.toThrow('broken')
  })

  it('fails when it is cut off, whether its source stops or fails', async () => {
    for (const fails of [true, false]) {
      const cut = new AbortController()
      const open = async function* () {
        yield said(1)
        cut.abort()
        if (fails) throw new SandboxError('aborted', 'It was cut.')
      }
      await expect(seqs(wholeOutput(open, cut.signal))).rejects.toMatchObject({ code: 'unavailable' })
    }
  })
})
