import { SandboxError } from '../../errors.ts'
import { abortedError } from '../../shared/calls/abort.ts'
import { sleep } from '../../shared/calls/clock.ts'
import { encode } from '../../shared/output/bytes.ts'
import { HeadTail } from '../../shared/output/collect.ts'
import type { SandboxShell, ShellExecOptions, ShellResult } from '../../spec/index.ts'
import type { MemoryFiles } from './files.ts'
import type { MemorySandbox } from './sandbox.ts'

/**
 * A shell that you script. It gets the line, the persistent state, and a function for output. Without one, the memory
 * provider has no ability `shell`, because it does not parse a shell language.
 */
export type ShellHandler = (line: string, state: ShellState, io: ShellIo) => number | Promise<number>

/** Changes are visible to the next command. */
export interface ShellState {
  cwd: string
  env: Record<string, string>
}

export interface ShellIo {
  write(text: string): void
  /** Aborts at the command's timeout, or when its call is cancelled. */
  readonly signal: AbortSignal
  readonly files: MemoryFiles
  sleep(ms: number): Promise<void>
  /** Ends the shell, like `exit`: variables are lost, and the next command reports `shellRestarted`. */
  exit(code: number): never
}

export class MemoryShell implements SandboxShell {
  readonly name: string
  readonly #sandbox: MemorySandbox
  readonly #handler: ShellHandler
  readonly #env: Readonly<Record<string, string>>
  #state: ShellState
  #turn: Promise<unknown> = Promise.resolve()
  #restarted = false
  #open = true

  constructor(
    sandbox: MemorySandbox,
    handler: ShellHandler,
    options: { name: string; cwd: string; env: Record<string, string> },
  ) {
    this.#sandbox = sandbox
    this.#handler = handler
    this.name = options.name
    this.#env = options.env
    this.#state = { cwd: options.cwd, env: { ...options.env } }
  }

  get cwd(): string {
    return this.#state.cwd
  }

  exec(command: string, options: ShellExecOptions = {}): Promise<ShellResult> {
    const turn = this.#turn.then(() => this.#exec(command, options))
    this.#turn = turn.catch(() => {})
    return turn
  }

  async close(): Promise<boolean> {
    const open = this.#open
    this.end()
    this.#sandbox.shells.delete(this.name)
    return open
  }

  end(): void {
    this.#open = false
  }

  async #exec(
    command: string,
    { timeoutMs, signal, onOutput, maxOutputBytes = 4 * 1024 * 1024, outputBudget }: ShellExecOptions,
  ): Promise<ShellResult> {
    if (!this.#open)
      throw new SandboxError('not_found', `The shell ${this.name} is closed.`, {
        provider: 'memory',
        hint: 'Open another with openShell().',
      })
    if (signal?.aborted) throw abortedError(signal, 'The command')
    const { clock } = this.#sandbox.sharedState
    const startedAt = clock.now()
    const kept = new HeadTail(maxOutputBytes, outputBudget)
    const stop = new AbortController()
    const cancelTimeout =
      timeoutMs === undefined ? () => {} : clock.after(timeoutMs, () => stop.abort('timeout'))
    const onAbort = () => stop.abort('aborted')
    signal?.addEventListener('abort', onAbort, { once: true })
    const io: ShellIo = {
      write: (text) => {
        if (stop.signal.aborted) return
        kept.push(encode(text))
        void onOutput?.(text)
      },
      signal: stop.signal,
      files: this.#sandbox.files,
      sleep: (ms) => sleep(clock, ms, stop.signal),
      exit: (code) => {
        throw new ShellExit(code)
      },
    }
    const shellRestarted = this.#restarted
    this.#restarted = false
    const stopped = new Promise<number>((resolve) =>
      stop.signal.addEventListener('abort', () => resolve(137), { once: true }),
    )
    try {
      const exitCode = await Promise.race([stopped, this.#run(command, io)])
      if (stop.signal.reason === 'aborted' && signal) throw abortedError(signal, 'The command')
      const timedOut = stop.signal.reason === 'timeout'
      return {
        exitCode,
        output: kept.text(),
        cwd: this.cwd,
        timedOut,
        truncated: kept.truncated,
        durationMs: clock.now() - startedAt,
        shellRestarted,
      }
    } finally {
      cancelTimeout()
      signal?.removeEventListener('abort', onAbort)
    }
  }

  async #run(command: string, io: ShellIo): Promise<number> {
    try {
      return await this.#handler(command, this.#state, io)
    } catch (error) {
      if (io.signal.aborted) return 137
      if (!(error instanceof ShellExit)) throw error
      this.#state = { cwd: this.#state.cwd, env: { ...this.#env } }
      this.#restarted = true
      return error.code
    }
  }
}

class ShellExit extends Error {
  readonly code: number

  constructor(code: number) {
    super(`exit ${code}`)
    this.code = code
  }
}
