import type { ExecResult, Session, ShellInfo } from '../../client/index.ts'
import { checkMs } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import { abortable } from '../../shared/calls/abort.ts'
import type { CallOptions, SandboxShell, ShellExecOptions, ShellResult } from '../../spec/index.ts'
import { translating } from './translation.ts'

/** A named shell of the session. It runs in the daemon, and another process finds it by name. */
export class DaemonShell implements SandboxShell {
  readonly name: string
  readonly #session: Session
  #cwd: string
  #closed = false
  /** Serializes the commands of one handle, because concurrent requests can arrive out of order. */
  #turn: Promise<unknown> = Promise.resolve()

  constructor(session: Session, { name, cwd }: ShellInfo) {
    this.#session = session
    this.name = name
    this.#cwd = cwd
  }

  get cwd(): string {
    return this.#cwd
  }

  async exec(command: string, options: ShellExecOptions = {}): Promise<ShellResult> {
    if (typeof command !== 'string' || command.includes('\0'))
      throw new SandboxError('invalid_argument', '`command` must be a string without NUL characters.')
    if (this.#closed)
      throw new SandboxError('not_running', `The shell “${this.name}” is closed.`, {
        hint: 'Open a new one with openShell().',
      })
    const before = this.#turn
    const running = abortable(before, options.signal, 'The command').then(() => this.#exec(command, options))
    // If this command is cancelled while it waits, the next one still waits for the earlier ones.
    this.#turn = Promise.allSettled([before, running])
    return running
  }

  async #exec(command: string, options: ShellExecOptions): Promise<ShellResult> {
    const { execId, timeoutMs, maxOutputBytes, onOutput, signal } = options
    const running = this.#session.exec(command, {
      shell: this.name,
      timeoutMs: timeoutMs === undefined ? undefined : checkMs(timeoutMs, 'timeoutMs'),
      execId,
      maxOutputBytes,
      onOutput,
      signal,
    })
    return this.#after(await translating(this.#session.id, running))
  }

  async attach(
    execId: string,
    options: Omit<ShellExecOptions, 'execId' | 'timeoutMs'> = {},
  ): Promise<ShellResult> {
    const { signal, onOutput } = options
    const waiting = this.#session.command(execId).wait<ExecResult>({ signal, onOutput })
    return this.#after(await translating(this.#session.id, waiting))
  }

  async close(call: CallOptions = {}): Promise<boolean> {
    if (this.#closed) return false
    this.#closed = true
    return translating(this.#session.id, this.#session.closeShell(this.name, call))
  }

  #after(result: ExecResult): ShellResult {
    this.#cwd = result.cwd
    return result
  }
}
