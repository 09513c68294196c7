import { mkdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { checkCount, checkMs, invalid } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import { guarded } from '../../folder/errors.ts'
import { abortedError, onAbort, throwIfAborted } from '../../shared/calls/abort.ts'
import { HeadTail } from '../../shared/output/collect.ts'
import type { SandboxShell, ShellExecOptions, ShellResult } from '../../spec/index.ts'
import { Bash } from './programs/bash.ts'
import { processMarker } from './programs/environment.ts'
import { OutputPipe } from './programs/output-pipe.ts'
import { beforeCommand, childrenOf, killTree, type Target } from './programs/process-tree.ts'

/**
 * A bash process that keeps its state between commands.
 *
 *     stdin  (0)  ◄── one line for each command:  source ./7 </dev/null >./7.out 2>&1 3>&-
 *     status (3)  ──► nonce, exit status, working directory
 *     ./7.out     ──► the command's output: a named pipe of its own
 *
 * The status descriptor is closed while a command runs, so a command cannot fake its status or folder. Each command has its
 * own output pipe, so later output of a background job never mixes with another command's; it is read and discarded. After
 * the status has arrived, we write a random mark into the output pipe. All output of the command is before the mark.
 *
 * Commands run with `source` rather than `eval`, because a trap can `return` out of it. This ends a loop in the shell itself
 * without ending the shell.
 */
export class LocalShell implements SandboxShell {
  readonly name: string
  readonly #options: LocalShellOptions
  #cwd: string
  #bash: Bash | undefined
  #restarted = false
  #queue: Promise<unknown> = Promise.resolve()
  #closed = false
  #count = 0

  constructor(options: LocalShellOptions) {
    this.#options = options
    this.name = options.name
    this.#cwd = options.cwd
  }

  get cwd(): string {
    return this.#cwd
  }

  get closed(): boolean {
    return this.#closed
  }

  ready(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#running()
    })
  }

  async exec(command: string, options: ShellExecOptions = {}): Promise<ShellResult> {
    if (typeof command !== 'string') throw invalid('`command` must be a string.')
    if (command.includes('\0')) throw invalid('`command` contains a NUL character.')
    if (options.timeoutMs !== undefined) checkMs(options.timeoutMs, 'timeoutMs')
    const max = checkCount(options.maxOutputBytes ?? 4 * 1024 * 1024, 'maxOutputBytes', 2 ** 30)
    return this.#inTurn(() => this.#exec(command, max, options))
  }

  async close(): Promise<boolean> {
    if (this.#closed) return false
    this.#closed = true
    this.#options.onClose()
    await this.#bash?.kill()
    await killTree({ marker: this.#marker })
    await rm(this.#options.folder, { recursive: true, force: true })
    return true
  }

  async #exec(
    command: string,
    max: number,
    { timeoutMs, signal, onOutput, outputBudget }: ShellExecOptions,
  ): Promise<ShellResult> {
    throwIfAborted(signal, 'The command')
    const bash = await this.#running()
    const shellRestarted = this.#restarted
    this.#restarted = false
    const startedAt = performance.now()
    const base = path.join(this.#options.folder, `${this.#count++}`)
    const output = await OutputPipe.open(base, new HeadTail(max, outputBudget), onOutput)
    const [older, before] = [await childrenOf(bash.pid), await beforeCommand(bash.pid)]
    let timedOut = false
    let ending: Promise<void> | undefined
    const end = () => {
      ending ??= bash.interrupt(older).then(async () => {
        // An orphaned process is no longer a child of the shell.
        if (before) await killTree({ marker: this.#marker }, before)
      })
    }
    const expire = () => {
      timedOut = true
      end()
    }
    let timer: NodeJS.Timeout | undefined
    let forget = () => {}
    try {
      await guarded('The command could not be sent to the shell', () =>
        writeFile(output.script, command, { mode: 0o600 }),
      )
      throwIfAborted(signal, 'The command')
      const running = bash.run(output)
      // Not earlier: before the shell has the command, an interrupt would have no effect.
      if (timeoutMs !== undefined) timer = setTimeout(expire, timeoutMs)
      forget = onAbort(signal, end)
      const status = await running
      await output.finish()
      if (status.cwd !== undefined) this.#cwd = status.cwd
      if (signal?.aborted) throw abortedError(signal, 'The command')
      const durationMs = performance.now() - startedAt
      return {
        exitCode: status.exitCode,
        output: output.text(),
        cwd: this.#cwd,
        timedOut,
        truncated: output.truncated,
        durationMs,
        shellRestarted,
      }
    } finally {
      clearTimeout(timer)
      forget()
      await ending
      await output.remove()
    }
  }

  async #running(): Promise<Bash> {
    if (this.#closed)
      throw new SandboxError('not_running', `The shell “${this.name}” is closed.`, {
        provider: 'local',
        hint: {
          sdk: 'Open a new one with openShell().',
          http: 'Open a new one with POST /v1/sessions/{id}/shells.',
          cli: 'Open a new one: sandkasten shells open.',
        },
      })
    if (this.#bash?.running) return this.#bash
    this.#restarted = this.#bash !== undefined
    await guarded('The shell’s folder could not be created', () =>
      mkdir(this.#options.folder, { recursive: true, mode: 0o700 }),
    )
    this.#bash = await Bash.start({
      cwd: this.#cwd,
      env: { ...this.#options.env, [processMarker]: this.#options.marker },
    })
    return this.#bash
  }

  get #marker(): Target['marker'] {
    return { name: processMarker, value: this.#options.marker }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#queue.then(work, work)
    this.#queue = turn.catch(() => {})
    return turn
  }
}

export interface LocalShellOptions {
  readonly name: string
  readonly marker: string
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly folder: string
  readonly onClose: () => void
}
