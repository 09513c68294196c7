import { type ProcessHandle, SandboxError, supports } from '@sandkasten/sdk'
import { HeadTail } from '@sandkasten/sdk/provider'
import type { OpenSandbox } from '../sources/index.ts'
import { shownOutput } from './command-output.ts'
import { limits } from './limits.ts'

/** Remembers a process: its command, and how to reach it where it cannot be found by its id. */
export function remember({ processes }: OpenSandbox, process: ProcessHandle, cmd: string): void {
  processes.set(process.execId, { process, cmd })
  for (const oldest of processes.keys()) {
    if (processes.size <= limits.processes) return
    processes.delete(oldest)
  }
}

export async function processOf(sandbox: OpenSandbox, execId: string): Promise<ProcessHandle> {
  const { handle, processes, signal } = sandbox
  if (supports(handle, 'reattach')) {
    try {
      return await handle.getProcess(execId, { signal })
    } catch (error) {
      if (!SandboxError.is(error, 'not_found')) throw error
    }
  }
  const known = processes.get(execId)
  if (known) return known.process
  throw new SandboxError('file_not_found', `There is no process ${JSON.stringify(execId.slice(0, 100))}.`, {
    hint: 'status lists the processes. A restart of the sandbox ends them.',
  })
}

export interface ReadOutput {
  readonly text: string
  /** The number of the last event, for the next read. */
  readonly after: number
  /** How the process ended. Absent: it still runs. */
  readonly exit?: { readonly exitCode: number; readonly signal?: string }
  readonly notes: readonly string[]
}

export interface ReadRange {
  readonly after: number
  /** How long to wait for the first new output. */
  readonly waitMs: number
}

/** What the process has written since `after`. Head and tail if it is long. */
export async function readOutput(
  process: ProcessHandle,
  { after, waitMs }: ReadRange,
  signal: AbortSignal,
): Promise<ReadOutput> {
  try {
    return await readSince(process, { after, waitMs }, signal)
  } catch (error) {
    // Output is kept up to a limit.
    if (!SandboxError.is(error, 'gone') || typeof error.details.oldest !== 'number') throw error
    const oldest = error.details.oldest
    const read = await readSince(process, { after: oldest - 1, waitMs }, signal)
    return { ...read, notes: [`output before event ${oldest} is no longer kept`, ...read.notes] }
  }
}

async function readSince(
  process: ProcessHandle,
  { after: from, waitMs }: ReadRange,
  signal: AbortSignal,
): Promise<ReadOutput> {
  const stop = new AbortController()
  const kept = new HeadTail(limits.resultBytes)
  let after = from
  let bytes = 0
  let exit: ReadOutput['exit']
  const events = process.output({ after, signal: AbortSignal.any([signal, stop.signal]) })
  const iterator = events[Symbol.asyncIterator]()
  // Then what is already there arrives without a pause.
  const pauseMs = 100
  try {
    for (let wait = Math.max(waitMs, pauseMs); ; wait = pauseMs) {
      const next = await within(iterator.next(), wait)
      if (next === undefined || next.done) break
      const event = next.value
      after = event.seq
      if (event.type === 'exit') {
        exit = { exitCode: event.exitCode, ...(event.signal !== undefined && { signal: event.signal }) }
        break
      }
      kept.push(event.data)
      bytes += event.data.byteLength
      if (bytes >= limits.readBytes) break
    }
  } finally {
    stop.abort()
    // It may wait for the process; the signal ends it.
    iterator.return?.().catch(() => {})
  }
  const text = shownOutput(kept)
  const notes = bytes >= limits.readBytes ? ['there is more: read again'] : []
  return { text, after, notes, ...(exit && { exit }) }
}

async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  promise.catch(() => {})
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
