import { SandboxError, type SandboxShell, type ShellResult } from '@sandkasten/sdk'
import { OutputLog } from '@sandkasten/sdk/provider'
import type { ExecRow } from '../../store/index.ts'
import { KeptEvents } from './kept-events.ts'
import { encodedResult } from './result-size.ts'
import { lossOf } from './run-command.ts'
import type { LiveCommand, ShellRequest, TrackOptions } from './types.ts'

const defaultOutputBytes = 4 * 1024 * 1024

/** Tracks a command of a stateful shell, and numbers the chunks of its output. */
export function trackShell(
  shell: SandboxShell,
  row: ExecRow,
  options: TrackOptions & {
    /** Undefined for a command that an earlier process started: it is only followed. */
    request?: ShellRequest
    onEnd: (result: ShellResult) => void
  },
): LiveCommand & { found: Promise<boolean> } {
  const found = Promise.withResolvers<boolean>()
  const { account, maxResultBytes, save } = options
  // A slow reader slows the command, so that unread output does not pile up in memory.
  let relieved: Promise<void> | undefined
  let relieve = () => {}
  const log = new OutputLog({
    capacityBytes: 1024 * 1024,
    onPressure: (wait) => {
      if (wait) relieved = new Promise((resolve) => (relieve = resolve))
      else {
        relieved = undefined
        relieve()
      }
    },
  })
  const stop = new AbortController()
  let pieces = 0
  const calls = {
    execId: row.exec_id,
    signal: stop.signal,
    onOutput: (text: string): void | Promise<void> => {
      pieces += 1
      log.push('stdout', Buffer.from(text))
      return relieved
    },
    outputBudget: account,
    maxOutputBytes: Math.min(options.request?.maxOutputBytes ?? defaultOutputBytes, maxResultBytes),
  }
  const { request } = options
  // A shell without `attach` ends with this process, so stop its command first.
  if (!shell.attach) options.signal.addEventListener('abort', () => stop.abort(), { once: true })
  /** Reconnects to a command that still runs. Its output restarts from the beginning, so the known part is skipped. */
  const again = (error: unknown): Promise<ShellResult> => {
    if (!shell.attach || options.signal.aborted || !SandboxError.is(error, 'connection_lost')) throw error
    let skip = pieces
    const onOutput = (text: string) => {
      if (skip === 0) return calls.onOutput(text)
      skip -= 1
    }
    return shell.attach(row.exec_id, { ...calls, onOutput }).catch(again)
  }
  const running = request
    ? shell.exec(request.command, { ...calls, timeoutMs: request.timeoutMs }).catch(again)
    : shell.attach!(row.exec_id, { ...calls, onFound: () => found.resolve(true) }).catch(again)
  const ended = async (result: ShellResult) => {
    const kept = new KeptEvents()
    for (const event of log.kept()) kept.push(event)
    return save({
      status: 'done',
      ended_at: Date.now(),
      result: await encodedResult(account, result, { kind: 'exec', maxBytes: maxResultBytes }),
      events: JSON.stringify(kept.toJSON()),
    })
  }
  const done = running
    .then((result) => {
      log.end({ exitCode: result.exitCode, timedOut: result.timedOut, durationMs: result.durationMs })
      options.onEnd(result)
      return ended(result)
    })
    .catch((error: unknown) => {
      // The row exists but the command never started. No client learned of it, so a retry may start it.
      found.resolve(!SandboxError.is(error, 'not_found'))
      if (options.signal.aborted || (!request && SandboxError.is(error, 'not_found'))) return row
      const killed = stop.signal.aborted && SandboxError.is(error, 'aborted')
      if (!killed) return save({ status: 'lost', ended_at: Date.now(), result: lossOf(error) }, error)
      const facts = { exitCode: 137, timedOut: false, durationMs: Date.now() - row.created_at }
      log.end({ ...facts, signal: 'SIGKILL' })
      const output = Buffer.concat(log.kept().flatMap((event) => (event.type === 'exit' ? [] : [event.data])))
      const truncated = (log.kept()[0]?.seq ?? 1) > 1
      return ended({ ...facts, output: output.toString(), cwd: shell.cwd, truncated, shellRestarted: false })
    })
    .catch((error: unknown) => save({ status: 'lost', ended_at: Date.now(), result: lossOf(error) }, error))
  // Readers of a lost command end without an exit event.
  const ending = new AbortController()
  void done.then(({ status }) => status !== 'done' && ending.abort())
  return {
    state: 'live',
    row,
    done,
    found: found.promise,
    output: (after, signal) => log.read(after, AbortSignal.any([signal, ending.signal])),
    async kill(signal) {
      if (!killers.has(signal))
        throw new SandboxError('unsupported', `Cannot send ${signal} to a command of a shell.`, {
          hint: `Use one of ${[...killers].join(', ')}: they end the command and keep the shell.`,
        })
      if (log.exit) return false
      stop.abort()
      return true
    },
  }
}

const killers = new Set<string>(['SIGKILL', 'SIGTERM', 'SIGINT'])
