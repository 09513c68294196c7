import type { FilesDriver } from '../../../core/driver.ts'
import { DriverFiles } from '../../../core/files.ts'
import { type Clock, sleep } from '../../../shared/calls/clock.ts'
import { encode } from '../../../shared/output/bytes.ts'
import type { ProcessSignal } from '../../../spec/index.ts'
import type { ChildOptions, ChildProcess, CommandContext, CommandHandler, OutputWriter } from './commands.ts'
import { Pipe } from './stdin-pipe.ts'

/**
 * A running program: a handler and its context. A JavaScript function cannot be stopped from outside. So a killed program
 * ends for its watchers at once, and the handler's next use of the context rejects with `Killed`, which unwinds it.
 */
export class Program {
  readonly stdin = new Pipe()
  readonly ended: Promise<ProgramEnd>
  end: ProgramEnd | undefined
  readonly #host: ProgramHost
  readonly #spec: ProgramSpec
  readonly #children: Program[] = []
  readonly #traps = new Map<string, () => void>()
  readonly #killed = new AbortController()
  #stopped = false
  #settle: (end: ProgramEnd) => void = () => {}

  constructor(host: ProgramHost, spec: ProgramSpec) {
    this.#host = host
    this.#spec = spec
    this.ended = new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  start(): void {
    const { handler } = this.#spec
    // In a later microtask, so that the caller has the handle before the program starts.
    Promise.resolve()
      .then(() => this.gate())
      .then(() => handler(this.#context()))
      .then(
        (code) => this.#finish({ exitCode: typeof code === 'number' ? code & 0xff : 0 }),
        (error) => this.#crash(error),
      )
  }

  /** Signals this program and all descendants, children first, so that none of them can react. */
  deliver(signal: string): void {
    for (const child of this.#children) child.deliver(signal)
    this.deliverAlone(signal)
  }

  /** Signals only this program's process group, like a weaker provider. */
  deliverToGroup(signal: string): void {
    for (const child of this.#children) if (!child.#spec.session) child.deliverToGroup(signal)
    this.deliverAlone(signal)
  }

  /** Signals this program only, not its children. */
  deliverAlone(signal: string): void {
    if (this.end) return
    if (signal === 'SIGSTOP') this.#stopped = true
    else if (signal === 'SIGCONT') this.#stopped = false
    else if (signal !== 'SIGKILL' && this.#traps.has(signal)) this.#traps.get(signal)!()
    else this.#finish({ exitCode: 128 + (signalNumbers[signal] ?? 0), signal })
    this.#host.changed()
  }

  get alive(): boolean {
    return !this.end || this.#children.some((child) => child.alive)
  }

  /** Resolves when the program may continue, neither stopped nor paused. Rejects when it is killed. */
  async gate(): Promise<void> {
    while (!this.end && (this.#stopped || this.#host.paused())) await this.#race(this.#host.change())
    if (this.end) throw new Killed()
  }

  #context(): CommandContext {
    const { cmd, args, env, cwd } = this.#spec
    const { clock } = this.#host
    const step = async <T>(work: Promise<T>): Promise<T> => {
      const result = await this.#race(work)
      await this.gate()
      return result
    }
    return {
      cmd,
      args,
      env,
      cwd,
      sandboxId: this.#host.sandboxId,
      stdin: this.stdin,
      stdout: this.#writer('stdout'),
      stderr: this.#writer('stderr'),
      files: new DriverFiles(
        programFiles(cwd, this.#host.files, () => this.gate()),
        { provider: 'memory', capabilities: {} },
      ),
      clock: { now: () => clock.now(), sleep: (ms) => step(sleep(clock, ms, this.#killed.signal)) },
      signal: this.#killed.signal,
      trap: (signal, handler) => void this.#traps.set(signal, handler),
      raise: (signal) => {
        this.#finish({ exitCode: 128 + (signalNumbers[signal] ?? 0), signal })
        throw new Killed()
      },
      spawnChild: (childCmd, childArgs = [], options = {}) => this.#spawnChild(childCmd, childArgs, options),
    }
  }

  #writer(type: 'stdout' | 'stderr'): OutputWriter {
    return {
      write: async (data) => {
        await this.gate()
        this.#host.output(type, encode(data).slice())
        const room = this.#host.room()
        if (!room) return
        await this.#race(room)
        await this.gate()
      },
    }
  }

  #spawnChild(cmd: string, args: readonly string[], { session = false }: ChildOptions): ChildProcess {
    const handler = this.#host.resolve(cmd, args)
    const child = new Program(this.#host, { ...this.#spec, cmd, args, handler, session })
    child.stdin.end()
    this.#children.push(child)
    child.start()
    return {
      exited: child.ended.then(({ exitCode }) => exitCode),
      kill: (signal: ProcessSignal = 'SIGTERM') => child.deliver(signal),
    }
  }

  #race<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.ended.then(() => Promise.reject(new Killed()))])
  }

  #crash(error: unknown): void {
    if (this.end || error instanceof Killed) return this.#finish({ exitCode: 1 })
    this.#host.output(
      'stderr',
      encode(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`),
    )
    this.#finish({ exitCode: 1, error })
  }

  #finish(end: ProgramEnd): void {
    if (this.end) return
    this.end = end
    this.#settle(end)
    this.stdin.break()
    if (end.signal !== undefined) this.#killed.abort(end.signal)
  }
}

export interface ProgramSpec {
  readonly cmd: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly handler: CommandHandler
  /** The program leads its own session. */
  readonly session?: boolean
}

export interface ProgramHost {
  readonly sandboxId: string
  readonly clock: Clock
  readonly files: FilesDriver
  output(type: 'stdout' | 'stderr', data: Uint8Array): void
  /** Resolves when slow readers have caught up. */
  room(): Promise<void> | undefined
  paused(): boolean
  /** Resolves when the paused or stopped state may have changed. */
  change(): Promise<void>
  changed(): void
  resolve(cmd: string, args: readonly string[]): CommandHandler
}

export interface ProgramEnd {
  readonly exitCode: number
  readonly signal?: string
  readonly error?: unknown
}

class Killed extends Error {
  override readonly name = 'Killed'
}

const signalNumbers: Record<string, number> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGABRT: 6,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGTERM: 15,
}

/** The sandbox's files for a program: relative to its working directory, and only while it may continue. */
function programFiles(cwd: string, files: FilesDriver, gate: () => Promise<void>): FilesDriver {
  const at = async (path: string) => {
    await gate()
    return path.startsWith('/') ? path : `${cwd}/${path}`
  }
  return {
    readStream: async (path, range, call) => files.readStream(await at(path), range, call),
    write: async (path, chunks, options, call) => files.write(await at(path), chunks, options, call),
    list: async (path, options, call) => files.list(await at(path), options, call),
    stat: async (path, options, call) => files.stat(await at(path), options, call),
    mkdir: async (path, options, call) => files.mkdir(await at(path), options, call),
    rename: async (from, to, call) => files.rename(await at(from), await at(to), call),
    rm: async (path, options, call) => files.rm(await at(path), options, call),
    chmod: async (path, mode, call) => files.chmod(await at(path), mode, call),
    symlink: async (target, path, call) => files.symlink(target, await at(path), call),
    readlink: async (path, call) => files.readlink(await at(path), call),
  }
}
