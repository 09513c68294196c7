import { type ProcessEvent, SandboxError } from '@sandkasten/sdk'
import type { Services } from '../../api/index.ts'
import { endedBy } from '../../api/streams.ts'
import type { Caller } from '../../keys/index.ts'
import type { Tracked } from '../../sessions/index.ts'

/** A command that runs, or what is kept of one that has ended. */
export type Found = Awaited<ReturnType<Services['sessions']['commands']['find']>>

export function rowOf(found: Found): Tracked['row'] {
  return 'row' in found ? found.row : found
}

/** A command's output after an event, as `wholeOutput` tells it. */
export function outputOf(
  { sessions }: Services,
  caller: Caller,
  found: Found,
  signal: AbortSignal,
  after = 0,
): AsyncGenerator<ProcessEvent> {
  const open = (from: number) =>
    'row' in found ? found.output(from, signal) : sessions.commands.replay(caller, found, from, signal)
  return wholeOutput(open, signal, after)
}

/**
 * Output to its exit. What was said too long ago is gone: then it goes on with the oldest that is left. It ends without an exit where the
 * sandbox did before the program; and where the signal fires, with an error: whoever still listens then is not told that all is well.
 */
export async function* wholeOutput(
  open: (after: number) => AsyncIterable<ProcessEvent>,
  signal: AbortSignal,
  after = 0,
): AsyncGenerator<ProcessEvent> {
  for (let last = after; ; ) {
    try {
      for await (const event of open(last)) {
        last = event.seq
        yield event
        if (event.type === 'exit') return
      }
      break
    } catch (error) {
      if (signal.aborted) break
      const oldest = SandboxError.is(error, 'gone') ? (error.details.oldest ?? 0) : undefined
      // Nothing was kept of it.
      if (oldest === 0) return
      if (typeof oldest !== 'number' || oldest - 1 <= last) throw error
      last = oldest - 1
    }
  }
  if (signal.aborted) throw endedBy(signal)
}
