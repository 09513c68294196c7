import { type ProcessEvent, SandboxError } from '@sandkasten/sdk'
import { endedBy } from '../../http/event-streams.ts'
import type { Command } from '../../sessions/index.ts'

/** A command's output after an event, as `wholeOutput` reads it. */
export function outputOf(command: Command, signal: AbortSignal, after = 0): AsyncGenerator<ProcessEvent> {
  return wholeOutput((from) => command.output(from, signal), signal, after)
}

/**
 * Reads output up to its exit event. After a gap of dropped events, it continues with the oldest kept event. Ends without
 * an exit event if the sandbox ended before the program. Throws when the signal fires, so that a connected client does
 * not take the stream for a complete one.
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
      // No event was kept.
      if (oldest === 0) return
      if (typeof oldest !== 'number' || oldest - 1 <= last) throw error
      last = oldest - 1
    }
  }
  if (signal.aborted) throw endedBy(signal)
}
