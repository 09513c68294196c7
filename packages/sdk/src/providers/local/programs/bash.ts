import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'
import type { Duplex } from 'node:stream'
import { SandboxError } from '../../../errors.ts'
import { bashPrologue } from '../../../shared/guest/bash-prologue.ts'
import { randomId } from '../../../shared/ids.ts'
import { quoteArg } from '../../../shared/quote.ts'
import { checkCwd } from './child.ts'
import type { OutputPipe } from './output-pipe.ts'
import { childrenOf } from './process-tree.ts'

export interface ShellStatus {
  readonly exitCode: number
  /** Unknown if the shell itself ended. */
  readonly cwd?: string
}

/** The bash process behind a shell, and the two descriptors that control it. */
export class Bash {
  readonly pid: number
  readonly #child: ChildProcess
  #ended: ShellStatus | undefined
  #lastStatus = 0
  #waiting: { nonce: string; resolve: (status: ShellStatus) => void } | undefined

  static async start(place: { cwd: string; env: Record<string, string> }): Promise<Bash> {
    checkCwd(place.cwd)
    const child = spawn('bash', ['--noprofile', '--norc', '-s'], {
      ...place,
      stdio: ['pipe', 'ignore', 'ignore', 'pipe'],
      detached: true,
    })
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve)
      child.once('error', (cause) =>
        reject(
          new SandboxError('command_not_found', 'bash could not be started.', { provider: 'local', cause }),
        ),
      )
    })
    return new Bash(child)
  }

  private constructor(child: ChildProcess) {
    this.#child = child
    this.pid = child.pid!
    child.stdin!.on('error', () => {})
    child.stdin!.write(bashPrologue)
    let text = ''
    const status = child.stdio[3] as Duplex
    status.setEncoding('utf8')
    status.on('error', () => {})
    status.on('data', (chunk: string) => {
      text += chunk
      for (let end = text.indexOf('\0'); end !== -1; end = text.indexOf('\0')) {
        this.#report(text.slice(0, end))
        text = text.slice(end + 1)
      }
    })
    child.once('exit', (code, signal) => {
      this.#ended = { exitCode: code ?? 128 + (signal ? constants.signals[signal] : 0) }
      this.#waiting?.resolve(this.#ended)
    })
    // An open shell does not keep this process alive; a running command does, through its output pipe.
    child.unref()
    for (const stream of [child.stdin, status]) (stream as unknown as { unref(): void }).unref()
  }

  get running(): boolean {
    return this.#ended === undefined
  }

  run(output: OutputPipe): Promise<ShellStatus> {
    const nonce = randomId(26)
    // Sets `$?` to the previous command's exit code. `||` keeps `set -e` from ending the shell.
    const before = this.#lastStatus === 0 ? '' : `__sandkasten_status ${this.#lastStatus} || `
    const line = `${before}\\builtin source ${quoteArg(output.script)} </dev/null >${quoteArg(output.file)} 2>&1 3>&-`
    const report = `\\builtin printf '%s %s ' ${nonce} "$?" >&3; \\builtin pwd >&3; \\builtin printf '\\0' >&3`
    return new Promise((resolve) => {
      if (this.#ended) return resolve(this.#ended)
      this.#waiting = { nonce, resolve }
      this.#child.stdin!.write(`${line}\n${report}\n`)
    })
  }

  /** Ends the current command, but not background jobs of earlier ones. Kills the shell only if it does not respond. */
  async interrupt(older: readonly number[]): Promise<void> {
    for (let round = 0; round < 40 && this.#waiting && this.running; round += 1) {
      const children = (await childrenOf(this.pid)).filter((pid) => !older.includes(pid))
      // SIGINT first, as from a keyboard: the shell prints no message for it.
      for (const pid of children) await signalSubtree(pid, round < 3 ? 'SIGINT' : 'SIGKILL')
      if (!this.#waiting) return
      this.#child.kill('SIGUSR1')
      await new Promise((resolve) => setTimeout(resolve, Math.min(5 + round * 5, 100)))
    }
    if (this.#waiting) await this.kill()
  }

  async kill(): Promise<void> {
    if (this.#ended) return
    const ended = new Promise<void>((resolve) => this.#child.once('exit', () => resolve()))
    // A caller who waits for the end keeps this process alive.
    this.#child.ref()
    this.#child.kill('SIGKILL')
    await ended
  }

  #report(message: string): void {
    const match = /^(\S+) (\d+) (.*)\n$/s.exec(message)
    if (!match || match[1] !== this.#waiting?.nonce) return
    const { resolve } = this.#waiting!
    this.#waiting = undefined
    this.#lastStatus = Number(match[2])
    resolve({ exitCode: this.#lastStatus, cwd: match[3]! })
  }
}

async function signalSubtree(pid: number, signal: NodeJS.Signals): Promise<void> {
  for (const child of await childrenOf(pid)) await signalSubtree(child, signal)
  try {
    process.kill(pid, signal)
  } catch {
    // The process has already ended.
  }
}
