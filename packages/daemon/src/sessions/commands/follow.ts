import {
  type CommandResult,
  type OutputBudget,
  type ProcessEvent,
  type ProcessHandle,
  SandboxError,
} from '@sandkasten/sdk'
import { HeadTail } from '@sandkasten/sdk/provider'
import { KeptEvents, type StoredEvent } from './kept-events.ts'

export interface Followed {
  result: CommandResult
  events: StoredEvent[]
}

/**
 * Reads a process to its end, collects its result and keeps its newest events. Reconnects after lost connections. Throws
 * when the process no longer exists.
 */
export async function follow(
  find: () => Promise<ProcessHandle>,
  options: {
    maxOutputBytes?: number
    outputBudget?: OutputBudget
    signal: AbortSignal
    /** Called for each event, and awaited before the next one is read. */
    onEvent?: (event: ProcessEvent) => Promise<void> | void
  },
): Promise<Followed> {
  const { maxOutputBytes: limit = 1024 * 1024, outputBudget } = options
  const streams = { stdout: new HeadTail(limit, outputBudget), stderr: new HeadTail(limit, outputBudget) }
  const kept = new KeptEvents(outputBudget)
  let after = 0
  let missed = false
  for (let waitMs = 50; ; waitMs = Math.min(waitMs * 2, 1000)) {
    try {
      for await (const event of (await find()).output({ after, signal: options.signal })) {
        kept.push(event)
        await options.onEvent?.(event)
        if (event.type === 'exit') return { result: resultOf(event, streams, missed), events: kept.toJSON() }
        streams[event.type].push(event.data)
        const pause = outputBudget?.pace?.(event.data.byteLength)
        if (pause) await pause
        after = event.seq
        waitMs = 50
      }
    } catch (error) {
      if (!SandboxError.is(error) || options.signal.aborted) throw error
      const { oldest } = error.details
      if (error.code === 'gone' && typeof oldest === 'number' && oldest - 1 > after) {
        missed = true
        after = oldest - 1
        continue
      }
      if (!isPassing(error)) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, waitMs))
  }
}

/** Whether the process may still exist after this error. */
export function isPassing(error: unknown): boolean {
  return SandboxError.is(error, 'connection_lost', 'timeout', 'unavailable')
}

function resultOf(
  exit: Extract<ProcessEvent, { type: 'exit' }>,
  { stdout, stderr }: { stdout: HeadTail; stderr: HeadTail },
  missed: boolean,
): CommandResult {
  const { exitCode, signal, timedOut, oom, durationMs } = exit
  return {
    exitCode,
    stdout: stdout.text(),
    stderr: stderr.text(),
    signal,
    timedOut,
    truncated: missed || stdout.truncated || stderr.truncated,
    oom,
    durationMs,
  }
}
