import type { ProcessEvent } from '@sandkasten/sdk'
import { describe, expect, it } from 'vitest'
import { textSoFar } from './current-output.ts'

const bytes = (text: string) => Buffer.from(text)

describe('the output so far', () => {
  const say = (seq: number, type: 'stdout' | 'stderr', data: Uint8Array): ProcessEvent => ({
    seq,
    type,
    data,
  })
  const source = (events: ProcessEvent[], ends: boolean) =>
    async function* (signal: AbortSignal): AsyncGenerator<ProcessEvent> {
      yield* events
      if (!ends) await new Promise((resolve) => signal.addEventListener('abort', resolve))
    }
  const never = new AbortController().signal

  it('ends before an incomplete character, which comes with the next response', async () => {
    const [first, second] = [bytes('a€').subarray(0, 2), bytes('a€').subarray(2)]
    const begun = [say(1, 'stdout', bytes('one ')), say(2, 'stdout', first)]
    expect(await textSoFar(source(begun, false), 0, never)).toEqual({ text: 'one ', cursor: 1 })
    const more = [say(2, 'stdout', first), say(3, 'stderr', bytes('!')), say(4, 'stdout', second)]
    expect(await textSoFar(source(more, false), 1, never)).toEqual({ text: 'a!€', cursor: 4 })
    expect(await textSoFar(source([], false), 4, never)).toEqual({ text: '', cursor: 4 })
  })

  it('is complete once the command has ended', async () => {
    const exit = { seq: 3, type: 'exit', exitCode: 0, timedOut: false, durationMs: 1 } as const
    const events = [say(1, 'stdout', bytes('x')), say(2, 'stdout', Buffer.from([0xe2, 0x82])), exit]
    expect(await textSoFar(source(events, true), 0, never)).toEqual({ text: 'x\uFFFD', cursor: 2 })
  })
})
