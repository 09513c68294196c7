import { type ProcessEvent, SandboxError } from '@sandkasten/sdk'

/** A process or a terminal: output with numbers, of which the oldest may be gone. */
export interface Followed {
  output(options: { after?: number; signal?: AbortSignal }): AsyncIterable<ProcessEvent>
}

/** What came after an event, and on; where that was dropped, from the oldest that is left on, and says so (`missed`). */
export async function* follow(
  followed: Followed,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<{ event: ProcessEvent; missed: boolean }> {
  let from = after
  let missed = false
  for (;;) {
    try {
      for await (const event of followed.output({ after: from, signal })) {
        from = event.seq
        yield { event, missed }
        missed = false
      }
      return
    } catch (error) {
      const oldest = SandboxError.is(error, 'gone') ? error.details.oldest : undefined
      // One that sends us back to where we are would do so for ever.
      if (typeof oldest !== 'number' || oldest - 1 <= from) throw error
      from = oldest - 1
      missed = true
    }
  }
}
