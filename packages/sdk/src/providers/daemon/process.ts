import type { Command, CommandInfo, RunResult, Session } from '../../client/index.ts'
import type { ProcessDriver, ProcessSpec } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import type {
  CallOptions,
  ProcessEvent,
  ProcessExit,
  ProcessSignal,
  ProcessStatus,
} from '../../spec/index.ts'
import { translated, translating } from './translation.ts'

/** A command of the session with an id. All its state is in the daemon. */
export class DaemonProcess implements ProcessDriver {
  readonly execId: string
  readonly #session: Session
  readonly #command: Command
  #stdinClosed = false

  constructor(session: Session, command: Command) {
    this.#session = session
    this.#command = command
    this.execId = command.execId
  }

  async *events(after: number, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    try {
      yield* this.#command.output({ after, signal })
    } catch (error) {
      throw translated(error, this.#session.id)
    }
  }

  kill(signal: ProcessSignal, call: CallOptions): Promise<boolean> {
    return translating(this.#session.id, this.#command.signal(signal, call))
  }

  async status(call: CallOptions): Promise<ProcessStatus> {
    const info = await translating(this.#session.id, this.#command.info(call))
    return { running: info.status === 'running', ...exitOf(info) }
  }

  async waitForExit({ signal }: CallOptions): Promise<ProcessExit> {
    for (;;) {
      const waited = this.#command.info({ waitMs: answerMs, signal })
      const info = await translating(this.#session.id, waited)
      const { exit } = exitOf(info)
      if (exit) return exit
      if (info.status === 'lost')
        throw new SandboxError('interrupted', `The exit of the process ${this.execId} is unknown.`, {
          hint: 'Its sandbox ended first. Check what the program did, and start it again.',
        })
    }
  }

  async write(data: Uint8Array, call: CallOptions): Promise<void> {
    if (this.#stdinClosed) throw new SandboxError('stdin_closed', 'The program’s stdin is closed.')
    await translating(this.#session.id, this.#command.write(data, call))
  }

  async closeStdin(call: CallOptions): Promise<void> {
    if (this.#stdinClosed) return
    this.#stdinClosed = true
    await this.#command.closeStdin(call).catch((error: unknown) => {
      // The stdin of an ended program is already closed.
      if (!SandboxError.is(error, 'stdin_closed')) throw error
    })
  }

  /** Sends all chunks, then end-of-file. It is not an error if the program does not read them. */
  async feed(chunks: AsyncIterable<Uint8Array>): Promise<void> {
    try {
      // One chunk behind, so that the last one carries the end-of-file.
      let waiting: Uint8Array | undefined
      for await (const chunk of chunks) {
        if (waiting) await this.#command.write(waiting)
        waiting = chunk
      }
      await this.#command.write(waiting ?? new Uint8Array(0), { eof: true })
    } catch (error) {
      // The source failed: kill the program, so that it does not treat partial input as complete.
      if (!SandboxError.is(error, 'stdin_closed')) await this.#command.signal('SIGKILL').catch(() => {})
    }
  }
}

/** The longest that a request waits for the end of a program. The next request continues. */
const answerMs = 20_000

/** Always detached on the daemon, so that the daemon's request timeout does not limit the program. */
export async function startProcess(
  session: Session,
  spec: ProcessSpec,
  { signal }: CallOptions,
): Promise<DaemonProcess> {
  const { cmd, args, env, cwd, timeoutMs, execId, outputBufferBytes, merged } = spec
  try {
    const command = await session.start(cmd, {
      args,
      env,
      cwd,
      timeoutMs,
      execId,
      output: merged ? 'merged' : undefined,
      stdinOpen: spec.stdin !== 'empty',
      outputBufferBytes: Math.min(Math.max(outputBufferBytes, minBufferBytes), maxBufferBytes),
      // The events carry all output, so the result omits it.
      maxOutputBytes: 1,
      // A program with a waiting caller keeps the session in use; a detached one does not extend its lease.
      extra: { hold: !spec.detached },
      signal,
    })
    const process = new DaemonProcess(session, command)
    if (spec.stdin !== 'empty' && spec.stdin !== 'pipe') void process.feed(spec.stdin)
    return process
  } catch (error) {
    // The id belongs to another command: return that one.
    if (execId === undefined || !SandboxError.is(error, 'conflict')) throw error
    return new DaemonProcess(session, session.command(execId))
  }
}

/** Enough for the output of a program until a busy daemon reads it. At most the daemon's limit. */
const minBufferBytes = 1024 * 1024
const maxBufferBytes = 16 * 1024 * 1024

export function exitOf({ status, result }: CommandInfo): { exit?: ProcessExit } {
  if (status !== 'done' || !result) return {}
  const { exitCode, signal, timedOut, oom, durationMs } = result as RunResult
  return {
    exit: {
      exitCode,
      signal,
      timedOut,
      oom,
      durationMs,
    },
  }
}
