import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { constants, openSync } from 'node:fs'
import { mkdir, open, rm, writeFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import { constants as os } from 'node:os'
import path from 'node:path'
import type { Duplex, Readable } from 'node:stream'
import { promisify } from 'node:util'
import { SandboxError } from '../../errors.ts'
import { abortedError, onAbort, throwIfAborted } from '../../shared/abort.ts'
import { HeadTail } from '../../shared/collect.ts'
import { randomId } from '../../shared/ids.ts'
import { processMarker } from './environment.ts'
import { guarded } from './errors.ts'
import { childrenOf, killTree } from './tree.ts'
import { checkCount, checkMs, invalid } from '../../core/validate.ts'
import type { SandboxShell, ShellExecOptions, ShellResult } from '../../spec/index.ts'

/**
 * A bash that lives on between commands.
 *
 *     stdin  (0)  ◄── one line for each command:  source ./7 </dev/null >./7.out 2>&1 3>&-
 *     status (3)  ──► nonce, exit status, working directory
 *     ./7.out     ──► the command's output: a named pipe of its own
 *
 * Status and directory travel on a descriptor that is closed while a command runs, so nothing that it prints can
 * be taken for them. Each command has its own output pipe, so what a background job prints later is never part of
 * another command's output; it is read on and thrown away. When the status has come, we write a random mark into
 * the output pipe ourselves: all that the command wrote is before it.
 *
 * `source` rather than `eval`: a trap can `return` out of it, which is how a command that will not end by having
 * its programs killed (a loop in the shell itself) is ended without ending the shell.
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

  /** Resolves when the shell runs. */
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
    await killTree({ marker: { name: processMarker, value: this.#options.marker } })
    await rm(this.#options.folder, { recursive: true, force: true })
    return true
  }

  async #exec(command: string, max: number, { timeoutMs, signal, onOutput }: ShellExecOptions): Promise<ShellResult> {
    throwIfAborted(signal, 'The command')
    const bash = await this.#running()
    const shellRestarted = this.#restarted
    this.#restarted = false
    const startedAt = performance.now()
    const output = await OutputPipe.open(path.join(this.#options.folder, `${this.#count++}`), max, onOutput)
    const older = await childrenOf(bash.pid)
    let timedOut = false
    let ending: Promise<void> | undefined
    const end = () => {
      ending ??= bash.interrupt(older)
    }
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => {
      timedOut = true
      end()
    }, timeoutMs)
    const forget = onAbort(signal, end)
    try {
      await guarded('The command could not be given to the shell', () => writeFile(output.script, command, { mode: 0o600 }))
      const status = await bash.run(output)
      await output.finish()
      if (status.cwd !== undefined) this.#cwd = status.cwd
      if (signal?.aborted) throw abortedError(signal, 'The command')
      const durationMs = performance.now() - startedAt
      return { exitCode: status.exitCode, output: output.text(), cwd: this.#cwd, timedOut, truncated: output.truncated, durationMs, shellRestarted }
    } finally {
      clearTimeout(timer)
      forget()
      await ending
      await output.remove()
    }
  }

  async #running(): Promise<Bash> {
    if (this.#closed) throw new SandboxError('not_running', `The shell “${this.name}” is closed.`, { provider: 'local', hint: 'Open a new one with openShell().' })
    if (this.#bash?.running) return this.#bash
    this.#restarted = this.#bash !== undefined
    await guarded('The shell’s folder could not be made', () => mkdir(this.#options.folder, { recursive: true, mode: 0o700 }))
    this.#bash = await Bash.start({ cwd: this.#cwd, env: { ...this.#options.env, [processMarker]: this.#options.marker } })
    return this.#bash
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
  /** Private to this shell: scripts and pipes. */
  readonly folder: string
  readonly onClose: () => void
}

interface Status {
  readonly exitCode: number
  /** Unknown when the shell itself ended. */
  readonly cwd?: string
}

class Bash {
  readonly pid: number
  readonly #child: ChildProcess
  #ended: Status | undefined
  #waiting: { nonce: string; resolve: (status: Status) => void } | undefined

  static async start(place: { cwd: string; env: Record<string, string> }): Promise<Bash> {
    const child = spawn('bash', ['--noprofile', '--norc', '-s'], { ...place, stdio: ['pipe', 'ignore', 'ignore', 'pipe'], detached: true })
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve)
      child.once('error', (cause) => reject(new SandboxError('command_not_found', 'bash could not be started.', { provider: 'local', cause })))
    })
    return new Bash(child)
  }

  private constructor(child: ChildProcess) {
    this.#child = child
    this.pid = child.pid!
    child.stdin!.on('error', () => {})
    child.stdin!.write(`shopt -s expand_aliases; trap 'return 130 2>/dev/null' USR1\n`)
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
      this.#ended = { exitCode: code ?? 128 + (signal ? os.signals[signal] : 0) }
      this.#waiting?.resolve(this.#ended)
    })
    // An open shell does not keep this process alive; a command that runs does, through its output pipe.
    child.unref()
    for (const stream of [child.stdin, status]) (stream as unknown as { unref(): void }).unref()
  }

  get running(): boolean {
    return this.#ended === undefined
  }

  run(output: OutputPipe): Promise<Status> {
    const nonce = randomId(26)
    const line = `\\builtin source ${quote(output.script)} </dev/null >${quote(output.file)} 2>&1 3>&-`
    const report = `\\builtin printf '%s %s ' ${nonce} "$?" >&3; \\builtin pwd >&3; \\builtin printf '\\0' >&3`
    return new Promise((resolve) => {
      if (this.#ended) return resolve(this.#ended)
      this.#waiting = { nonce, resolve }
      this.#child.stdin!.write(`${line}\n${report}\n`)
    })
  }

  /** Ends what runs now but not the shell, unless it will not let go. Jobs from before are left alone. */
  async interrupt(older: readonly number[]): Promise<void> {
    for (let round = 0; round < 40 && this.#waiting && this.running; round += 1) {
      const children = (await childrenOf(this.pid)).filter((pid) => !older.includes(pid))
      for (const pid of children) await killSubtree(pid)
      if (!this.#waiting) return
      this.#child.kill('SIGUSR1')
      await new Promise((resolve) => setTimeout(resolve, Math.min(5 + round * 5, 100)))
    }
    if (this.#waiting) await this.kill()
  }

  async kill(): Promise<void> {
    if (this.#ended) return
    const ended = new Promise<void>((resolve) => this.#child.once('exit', () => resolve()))
    this.#child.kill('SIGKILL')
    await ended
  }

  #report(message: string): void {
    const match = /^(\S+) (\d+) (.*)\n$/s.exec(message)
    if (!match || match[1] !== this.#waiting?.nonce) return
    const { resolve } = this.#waiting!
    this.#waiting = undefined
    resolve({ exitCode: Number(match[2]), cwd: match[3]! })
  }
}

/** The named pipe that takes one command's output. */
class OutputPipe {
  readonly file: string
  readonly script: string
  readonly #kept: HeadTail
  readonly #socket: Readable
  readonly #writer: Awaited<ReturnType<typeof open>>
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #onOutput: ((text: string) => void) | undefined
  #mark: Buffer | undefined
  #held: Buffer = Buffer.alloc(0)
  #done = false
  #listenerError: unknown
  #resolveMark: () => void = () => {}

  static async open(base: string, maxBytes: number, onOutput: ((text: string) => void) | undefined): Promise<OutputPipe> {
    const file = `${base}.out`
    return guarded('The shell’s output pipe could not be made', async () => {
      await promisify(execFile)('mkfifo', ['-m', '600', file])
      // The reading end first, without blocking; then a writing end of our own, which is how the mark gets in.
      // The socket owns the descriptor and closes it; a FileHandle would close it too.
      const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
      const socket = new Socket({ fd, readable: true, writable: false })
      const writer = await open(file, constants.O_WRONLY)
      return new OutputPipe(base, file, socket, writer, maxBytes, onOutput)
    })
  }

  private constructor(base: string, file: string, socket: Socket, writer: Awaited<ReturnType<typeof open>>, maxBytes: number, onOutput: ((text: string) => void) | undefined) {
    this.script = base
    this.file = file
    this.#socket = socket
    this.#writer = writer
    this.#kept = new HeadTail(maxBytes)
    this.#onOutput = onOutput
    socket.on('error', () => this.#resolveMark())
    socket.on('data', (chunk: Buffer) => this.#take(chunk))
  }

  get truncated(): boolean {
    return this.#kept.truncated
  }

  text(): string {
    return this.#kept.text()
  }

  /** Resolves when all that was written until now has been read. */
  async finish(): Promise<void> {
    const mark = Buffer.from(randomId(26))
    const seen = new Promise<void>((resolve) => {
      this.#resolveMark = resolve
    })
    this.#mark = mark
    await this.#writer.write(mark)
    await seen
    this.#tell(this.#decoder.decode())
    if (this.#listenerError !== undefined) throw this.#listenerError
  }

  /** A background job may go on writing; its output is thrown away, and does not keep this process alive. */
  async remove(): Promise<void> {
    this.#done = true
    ;(this.#socket as Socket).unref()
    await this.#writer.close()
    await Promise.all([this.file, this.script].map((file) => rm(file, { force: true })))
  }

  #take(chunk: Buffer): void {
    if (this.#done) return
    if (!this.#mark) return this.#keep(chunk)
    const all = Buffer.concat([this.#held, chunk])
    const at = all.indexOf(this.#mark)
    // The mark may be split: what could be its beginning is held back.
    const ready = at === -1 ? Math.max(0, all.length - this.#mark.length + 1) : at
    this.#held = at === -1 ? all.subarray(ready) : Buffer.alloc(0)
    this.#keep(all.subarray(0, ready))
    if (at === -1) return
    this.#done = true
    this.#resolveMark()
  }

  #keep(chunk: Buffer): void {
    this.#kept.push(chunk)
    if (this.#onOutput) this.#tell(this.#decoder.decode(chunk, { stream: true }))
  }

  #tell(text: string): void {
    if (text === '' || this.#listenerError !== undefined) return
    try {
      this.#onOutput?.(text)
    } catch (error) {
      this.#listenerError = error
    }
  }
}

async function killSubtree(pid: number): Promise<void> {
  for (const child of await childrenOf(pid)) await killSubtree(child)
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
