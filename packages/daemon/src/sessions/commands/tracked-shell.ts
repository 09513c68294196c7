import { SandboxError, type SandboxShell, type ShellResult } from '@sandkasten/sdk'
import { OutputLog } from '@sandkasten/sdk/provider'
import type { ExecRow } from '../../store/index.ts'
import { KeptEvents } from './kept-events.ts'
import { lossOf } from './tracked-run.ts'
import type { ShellRequest, Tracked } from './types.ts'

/** A command of a stateful shell. Its output is numbered here, piece by piece as the shell gives it. */
export function trackShell(
  shell: SandboxShell,
  row: ExecRow,
  options: {
    /** Undefined: the command runs already, started before this process; only follow it. */
    request?: ShellRequest
    signal: AbortSignal
    onEnd: (result: ShellResult) => void
  },
  save: (changes: Partial<ExecRow>) => Promise<ExecRow>,
): Tracked & { found: Promise<boolean> } {
  const found = Promise.withResolvers<boolean>()
  const log = new OutputLog({ capacityBytes: 8 * 1024 * 1024 })
  const stop = new AbortController()
  let pieces = 0
  const calls = {
    commandId: row.exec_id,
    signal: stop.signal,
    onOutput: (text: string) => {
      pieces += 1
      log.push('stdout', Buffer.from(text))
    },
    ...(options.request?.maxOutputBytes === undefined
      ? {}
      : { maxOutputBytes: options.request.maxOutputBytes }),
  }
  const { request } = options
  // A shell that ends with this process is not left behind with a command in it.
  if (!shell.attach) options.signal.addEventListener('abort', () => stop.abort(), { once: true })
  /** The connection was lost, not the command: its output comes again from the beginning, and is skipped as far as it is known. */
  const again = (error: unknown): Promise<ShellResult> => {
    if (!shell.attach || options.signal.aborted || !SandboxError.is(error, 'connection_lost')) throw error
    let skip = pieces
    const onOutput = (text: string) => {
      if (skip > 0) skip -= 1
      else calls.onOutput(text)
    }
    return shell.attach(row.exec_id, { ...calls, onOutput }).catch(again)
  }
  const running = request
    ? shell.exec(request.command, { ...calls, timeoutMs: request.timeoutMs }).catch(again)
    : shell.attach!(row.exec_id, { ...calls, onFound: () => found.resolve(true) }).catch(again)
  const done = running.then(
    async (result) => {
      log.end({ exitCode: result.exitCode, timedOut: result.timedOut, durationMs: result.durationMs })
      options.onEnd(result)
      const kept = new KeptEvents()
      for (const event of log.kept()) kept.push(event)
      return save({
        status: 'done',
        ended_at: Date.now(),
        result: JSON.stringify({ kind: 'exec', ...result }),
        events: JSON.stringify(kept.toJSON()),
      })
    },
    async (error: unknown) => {
      // It was written down and never started: nobody was told of it, and a repeat may start it.
      found.resolve(!SandboxError.is(error, 'not_found'))
      if (options.signal.aborted || (!request && SandboxError.is(error, 'not_found'))) return row
      const killed = stop.signal.aborted && SandboxError.is(error, 'aborted')
      if (!killed) return save({ status: 'lost', ended_at: Date.now(), result: lossOf(error) })
      const durationMs = Date.now() - row.created_at
      log.end({ exitCode: 137, signal: 'SIGKILL', timedOut: false, durationMs })
      const kept = new KeptEvents()
      for (const event of log.kept()) kept.push(event)
      const output = Buffer.concat(log.kept().flatMap((event) => (event.type === 'exit' ? [] : [event.data])))
      const facts = {
        exitCode: 137,
        output: output.toString(),
        cwd: shell.cwd,
        timedOut: false,
        truncated: false,
      }
      return save({
        status: 'done',
        ended_at: Date.now(),
        result: JSON.stringify({ kind: 'exec', ...facts, durationMs, shellRestarted: false }),
        events: JSON.stringify(kept.toJSON()),
      })
    },
  )
  // Readers of a command that is lost are let go, without an exit event: that is how they know.
  const ending = new AbortController()
  void done.then(({ status }) => status !== 'done' && ending.abort())
  return {
    row,
    done,
    found: found.promise,
    output: (after, signal) => log.read(after, AbortSignal.any([signal, ending.signal])),
    async kill(signal) {
      if (!killers.has(signal))
        throw new SandboxError('unsupported', `A command of a shell cannot be sent ${signal}.`, {
          hint: `Use one of ${[...killers].join(', ')}: they end the command and keep the shell.`,
        })
      if (log.exit) return false
      stop.abort()
      return true
    },
  }
}

const killers = new Set<string>(['SIGKILL', 'SIGTERM', 'SIGINT'])
