import { type ProcessEvent, type ProcessHandle, type ProcessSignal, SandboxError } from '@sandkasten/sdk'
import type { ExecRow } from '../../store/index.ts'
import type { Sandbox } from '../context.ts'
import { follow } from './follow.ts'
import { encodedResult } from './result-size.ts'
import { SharedOutput } from './shared-output.ts'
import type { LiveCommand, RunRequest, TrackOptions } from './types.ts'

const defaultOutputBytes = 1024 * 1024

/** Starts a program under the command's id. It outlives this process, and a repeated call finds it. */
export function startRun(sandbox: Sandbox, row: ExecRow, request: RunRequest): Promise<ProcessHandle> {
  return sandbox.spawn({
    cmd: request.cmd,
    args: request.args,
    execId: row.exec_id,
    detached: true,
    env: request.env,
    cwd: request.cwd,
    output: request.output,
    timeoutMs: request.timeoutMs,
    stdin: request.stdin,
    outputBufferBytes: request.outputBufferBytes,
  })
}

export function trackRun(
  sandbox: Sandbox,
  row: ExecRow,
  options: TrackOptions & { started?: ProcessHandle; maxOutputBytes?: number },
): LiveCommand {
  let { started } = options
  const { account, maxResultBytes, save } = options
  const maxOutputBytes = Math.min(options.maxOutputBytes ?? defaultOutputBytes, maxResultBytes)
  const find = async () => {
    const handle = started ?? (await sandbox.getProcess(row.exec_id))
    started = undefined
    return handle
  }
  const handle = options.started
  const process = () => (handle ? Promise.resolve(handle) : sandbox.getProcess(row.exec_id))
  // Event numbers match the sandbox's only if output is followed from its beginning.
  const shared = handle && new SharedOutput()
  const onEvent = shared && ((event: ProcessEvent) => shared.push(event))
  const { signal } = options
  const done = follow(find, {
    signal,
    maxOutputBytes,
    outputBudget: account,
    onEvent,
  })
    .then(async ({ result, events }) =>
      save({
        status: 'done',
        ended_at: Date.now(),
        result: await encodedResult(account, result, { kind: 'run', maxBytes: maxResultBytes }),
        events: JSON.stringify(events),
      }),
    )
    .catch((error: unknown) => {
      shared?.end()
      if (signal.aborted) return row
      return save({ status: 'lost', ended_at: Date.now(), result: lossOf(error) }, error)
    })
  return {
    state: 'live',
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

/** The reason why the result is lost. */
export function lossOf(error: unknown): string {
  return JSON.stringify({ lost: SandboxError.is(error) ? error.code : 'internal' })
}
