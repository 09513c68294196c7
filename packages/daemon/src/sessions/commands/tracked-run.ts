import { type ProcessEvent, type ProcessHandle, type ProcessSignal, SandboxError } from '@sandkasten/sdk'
import type { ExecRow } from '../../store/index.ts'
import type { Sandbox } from '../context.ts'
import { follow } from './follow.ts'
import { SharedOutput } from './shared-output.ts'
import type { RunRequest, Tracked } from './types.ts'

/** Starts a program under the command's id, out of reach of this process's end. A repeat finds the first. */
export function startRun(sandbox: Sandbox, row: ExecRow, request: RunRequest): Promise<ProcessHandle> {
  return sandbox.spawn({
    cmd: request.cmd,
    args: request.args,
    processId: row.exec_id,
    detached: true,
    env: request.env,
    cwd: request.cwd,
    timeoutMs: request.timeoutMs,
    stdin: request.stdin,
    outputBufferBytes: request.outputBufferBytes,
  })
}

export function trackRun(
  sandbox: Sandbox,
  row: ExecRow,
  options: { started?: ProcessHandle; signal: AbortSignal; maxOutputBytes?: number },
  save: (changes: Partial<ExecRow>) => Promise<ExecRow>,
): Tracked {
  let { started } = options
  const find = async () => {
    const handle = started ?? (await sandbox.getProcess(row.exec_id))
    started = undefined
    return handle
  }
  const handle = options.started
  const process = () => (handle ? Promise.resolve(handle) : sandbox.getProcess(row.exec_id))
  // Only what is followed from its beginning is numbered as the sandbox does.
  const shared = handle && new SharedOutput()
  const onEvent = shared && ((event: ProcessEvent) => shared.push(event))
  const done = follow(find, { ...options, ...(onEvent ? { onEvent } : {}) }).then(
    ({ result, events }) =>
      save({
        status: 'done',
        ended_at: Date.now(),
        result: JSON.stringify({ kind: 'run', ...result }),
        events: JSON.stringify(events),
      }),
    (error: unknown) => {
      shared?.end()
      if (options.signal.aborted) return row
      return save({ status: 'lost', ended_at: Date.now(), result: lossOf(error) })
    },
  )
  return {
    row,
    done,
    async *output(after, signal) {
      const fromSandbox = async (last: number) => (await process()).output({ after: last, signal })
      yield* shared ? shared.read(after, signal, fromSandbox) : await fromSandbox(after)
    },
    kill: async (signal: ProcessSignal) => (await process()).kill(signal),
    write: async (data) => (await process()).writeStdin(data),
    closeStdin: async () => (await process()).closeStdin(),
  }
}

/** Why nobody will ever know how it ended. */
export function lossOf(error: unknown): string {
  return JSON.stringify({ lost: SandboxError.is(error) ? error.code : 'internal' })
}
