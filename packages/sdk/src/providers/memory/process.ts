import type { FilesDriver, ProcessDriver, ProcessSpec } from '../../core/driver.ts'
import { OutputLog } from '../../shared/output/output-log.ts'
import type {
  CallOptions,
  ProcessEvent,
  ProcessExit,
  ProcessInfo,
  ProcessSignal,
  ProcessStatus,
} from '../../spec/index.ts'
import { broken, type FaultPoint, type FaultRule } from './faults.ts'
import type { CommandHandler, RecordedCall } from './machine/commands.ts'
import { Program } from './machine/program.ts'
import type { SharedState } from './shared-state.ts'

export interface ProcessHost {
  readonly sandboxId: string
  readonly sharedState: SharedState
  readonly files: FilesDriver
  paused(): boolean
  change(): Promise<void>
  changed(): void
}

/** A process of a sandbox: a tree of programs and their numbered output. */
export class MemoryProcess {
  readonly execId: string
  readonly sandboxId: string
  readonly pid: number
  readonly startedAtMs: number
  readonly log: OutputLog
  readonly program: Program
  readonly #spec: ProcessSpec
  readonly #host: ProcessHost
  #timedOut = false
  #room: Promise<void> | undefined
  #relieved = () => {}

  constructor(
    host: ProcessHost,
    spec: ProcessSpec,
    run: {
      execId: string
      pid: number
      handler: CommandHandler
      args: readonly string[]
      env: Record<string, string>
      cwd: string
    },
  ) {
    this.#host = host
    this.#spec = spec
    this.execId = run.execId
    this.pid = run.pid
    this.sandboxId = host.sandboxId
    this.startedAtMs = host.sharedState.clock.now()
    this.log = new OutputLog({
      capacityBytes: spec.outputBufferBytes,
      onPressure: (wait) => this.#press(wait),
    })
    const { sharedState, sandboxId } = host
    sharedState.clock.after(firstReaderMs, this.log.expectReader())
    this.program = new Program(
      {
        sandboxId,
        clock: sharedState.clock,
        files: host.files,
        output: (type, data) => this.log.push(spec.merged ? 'stdout' : type, data),
        room: () => this.#room,
        paused: () => host.paused(),
        change: () => host.change(),
        changed: () => host.changed(),
        resolve: (cmd, args) => sharedState.commands.find(cmd, args) ?? (() => 127),
      },
      { cmd: spec.cmd, args: run.args, env: run.env, cwd: run.cwd, handler: run.handler },
    )
    const call: RecordedCall = {
      sandboxId,
      execId: this.execId,
      cmd: spec.cmd,
      args: spec.args,
      env: run.env,
      cwd: run.cwd,
      startedAtMs: this.startedAtMs,
    }
    sharedState.calls.push(call)
    sharedState.started(this)
    this.#run(call)
  }

  kill(signal: string): boolean {
    if (this.program.end) return false
    this.program.deliver(signal)
    return true
  }

  info(): ProcessInfo {
    return {
      execId: this.execId,
      cmd: this.#spec.cmd,
      args: this.#spec.args,
      startedAt: new Date(this.startedAtMs),
      ...this.status(),
    }
  }

  status(): ProcessStatus {
    const { exit } = this.log
    return exit ? { running: false, exit: exitFacts(exit) } : { running: true }
  }

  #run(call: RecordedCall): void {
    const { clock } = this.#host.sharedState
    const { stdin, timeoutMs } = this.#spec
    const cancelTimeout =
      timeoutMs === undefined
        ? () => {}
        : clock.after(timeoutMs, () => {
            this.#timedOut = !this.program.end
            this.program.deliver('SIGKILL')
          })
    void this.program.ended.then(({ exitCode, signal, error }) => {
      cancelTimeout()
      Object.assign(call, {
        exitCode,
        signal,
        error,
      })
      this.log.end({
        exitCode,
        signal,
        timedOut: this.#timedOut,
        durationMs: clock.now() - this.startedAtMs,
      })
    })
    if (stdin === 'empty') this.program.stdin.end()
    else if (stdin !== 'pipe') void this.#feed(stdin)
    this.program.start()
  }

  /** Sends the caller's input. It is not an error if the program ends before it has read all of it. */
  async #feed(chunks: AsyncIterable<Uint8Array>): Promise<void> {
    const iterator = chunks[Symbol.asyncIterator]()
    void this.program.ended.then(() => iterator.return?.()).catch(() => {})
    try {
      for (let item = await iterator.next(); !item.done; item = await iterator.next())
        await this.program.stdin.write(item.value)
      this.program.stdin.end()
    } catch {
      // The input failed, or the program closed it: send end-of-file.
      if (!this.program.end) this.program.stdin.end()
    }
  }

  #press(wait: boolean): void {
    if (!wait) {
      this.#room = undefined
      this.#relieved()
      return
    }
    this.#room = new Promise((resolve) => {
      this.#relieved = resolve
    })
  }
}

/** How long a program with much output waits for its first reader, which comes after the start. */
const firstReaderMs = 100

/** A handle's view of a process: checks the sandbox's incarnation, and applies faults. */
export class ProcessBinding implements ProcessDriver {
  readonly execId: string
  readonly pid: number
  readonly #process: MemoryProcess
  readonly #enter: (operation: FaultPoint, call: CallOptions) => Promise<unknown>
  readonly #outputFault: () => FaultRule | undefined

  constructor(
    process: MemoryProcess,
    enter: (operation: FaultPoint, call: CallOptions) => Promise<unknown>,
    outputFault: () => FaultRule | undefined,
  ) {
    this.#process = process
    this.#enter = enter
    this.#outputFault = outputFault
    this.execId = process.execId
    this.pid = process.pid
  }

  events(after: number, signal?: AbortSignal): AsyncIterable<ProcessEvent> {
    const events = this.#process.log.read(after, signal)
    const rule = this.#outputFault()
    return rule ? broken(events, rule) : events
  }

  async kill(signal: ProcessSignal, call: CallOptions): Promise<boolean> {
    await this.#enter('kill', call)
    return this.#process.kill(signal)
  }

  async status(call: CallOptions): Promise<ProcessStatus> {
    await this.#enter('processStatus', call)
    return this.#process.status()
  }

  get whenEnded(): Promise<void> {
    return this.#process.log.ended
  }

  async waitForExit(call: CallOptions): Promise<ProcessExit> {
    await this.#enter('processStatus', call)
    await this.whenEnded
    return this.#process.status().exit!
  }

  async write(data: Uint8Array, call: CallOptions): Promise<void> {
    await this.#enter('writeStdin', call)
    await this.#process.program.stdin.write(data)
  }

  async closeStdin(call: CallOptions): Promise<void> {
    await this.#enter('closeStdin', call)
    this.#process.program.stdin.end()
  }
}

function exitFacts({ exitCode, signal, timedOut, oom, durationMs }: ProcessExit): ProcessExit {
  return {
    exitCode,
    signal,
    timedOut,
    oom,
    durationMs,
  }
}
