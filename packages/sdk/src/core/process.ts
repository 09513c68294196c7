import { SandboxError } from '../errors.ts'
import { abortable, throwIfAborted } from '../shared/calls/abort.ts'
import { encode } from '../shared/output/bytes.ts'
import { withOutput } from '../shared/output/partial.ts'
import type {
  CallOptions,
  Capabilities,
  CommandResult,
  OutputOptions,
  ProcessCore,
  ProcessEvent,
  ProcessExit,
  ProcessSignal,
  ProcessStatus,
  ProcessStdin,
  WaitExitOptions,
  WaitOptions,
} from '../spec/index.ts'
import {
  defaultMaxOutputBytes,
  OutputCollector,
  type OutputListeners,
  readToEnd,
  TextListeners,
} from './collect.ts'
import type { ProcessDriver } from './driver.ts'
import { type OutputName, SplitOutput } from './split-output.ts'
import { unsupported } from './supports.ts'
import { checkCount, checkKnown, checkMs, invalid } from './validate.ts'

export class SandboxProcess implements ProcessCore, ProcessStdin {
  readonly execId: string
  readonly pid?: number
  readonly #driver: ProcessDriver
  readonly #owner: { provider: string; capabilities: Capabilities }
  /** The source of the streams that were opened last. The other one of them may still be free. */
  #split: SplitOutput | undefined
  readonly #unwanted = new Set<OutputName>()
  /** Settles when the listeners have been told everything. */
  #told: Promise<void> | undefined
  #listenerError: { error: unknown } | undefined

  constructor(
    driver: ProcessDriver,
    owner: { provider: string; capabilities: Capabilities },
    listeners: OutputListeners = {},
  ) {
    this.#driver = driver
    this.#owner = owner
    if (listeners.onStdout || listeners.onStderr) this.#told = this.#tell(listeners)
    this.execId = driver.execId
    if (driver.pid !== undefined) this.pid = driver.pid
  }

  output(options: OutputOptions = {}): AsyncIterable<ProcessEvent> {
    checkKnown(options, ['after', 'signal'], 'output()')
    const after = options.after ?? 0
    if (!Number.isInteger(after) || after < 0)
      throw invalid(`\`after\` is ${after}.`, 'Use the number of the last event that you received, or 0.')
    return this.#driver.events(after, options.signal)
  }

  stdout(options: CallOptions = {}): ReadableStream<Uint8Array> {
    return this.#stream('stdout', options)
  }

  stderr(options: CallOptions = {}): ReadableStream<Uint8Array> {
    return this.#stream('stderr', options)
  }

  wait(options?: WaitOptions): Promise<CommandResult>
  wait(options: WaitExitOptions & { collect: false }): Promise<ProcessExit>
  async wait(
    options: WaitOptions | (WaitExitOptions & { collect: false }) = {},
  ): Promise<CommandResult | ProcessExit> {
    checkKnown(options, ['timeoutMs', 'maxOutputBytes', 'collect', 'signal'], 'wait()')
    const { collect = true, timeoutMs } = options
    if (typeof collect !== 'boolean') throw invalid('`collect` must be true or false.')
    const maxBytes = 'maxOutputBytes' in options ? options.maxOutputBytes : undefined
    const collector = new OutputCollector({
      maxBytes:
        maxBytes === undefined ? defaultMaxOutputBytes : checkCount(maxBytes, 'maxOutputBytes', 2 ** 30),
    })
    const clock = timeoutMs === undefined ? undefined : AbortSignal.timeout(checkMs(timeoutMs, 'timeoutMs'))
    const signals = [options.signal, clock].filter((signal) => signal !== undefined)
    const signal = signals.length === 2 ? AbortSignal.any(signals) : signals[0]
    try {
      const result = await (collect
        ? collector.read(this.#driver, signal)
        : waitForExit(this.#driver, signal))
      if (this.#told) await abortable(this.#told, signal, 'Waiting for the process')
      if (this.#listenerError) throw this.#listenerError.error
      return result
    } catch (error) {
      const late = clock?.aborted && !options.signal?.aborted
      throw withOutput(late ? this.#late(timeoutMs!, error) : error, collect ? collector.partial() : {})
    }
  }

  async kill(signal: ProcessSignal = 'SIGTERM', options: CallOptions = {}): Promise<boolean> {
    if (!signals.includes(signal))
      throw invalid(`There is no signal ${String(signal)}.`, `Use one of ${signals.join(', ')}.`)
    throwIfAborted(options.signal)
    return abortable(this.#driver.kill(signal, options), options.signal)
  }

  async status(options: CallOptions = {}): Promise<ProcessStatus> {
    throwIfAborted(options.signal)
    return abortable(this.#driver.status(options), options.signal)
  }

  async writeStdin(data: string | Uint8Array, options: CallOptions = {}): Promise<void> {
    if (!this.#owner.capabilities.stdin || !this.#driver.write) throw unsupported(this.#owner, 'stdin')
    if (typeof data !== 'string' && !(data instanceof Uint8Array))
      throw invalid('writeStdin takes a string or a Uint8Array.')
    throwIfAborted(options.signal, 'Writing to stdin')
    await abortable(this.#driver.write(encode(data), options), options.signal, 'Writing to stdin')
  }

  async closeStdin(options: CallOptions = {}): Promise<void> {
    if (!this.#owner.capabilities.stdin || !this.#driver.closeStdin) throw unsupported(this.#owner, 'stdin')
    throwIfAborted(options.signal)
    await this.#driver.closeStdin(options)
  }

  #stream(type: OutputName, { signal }: CallOptions): ReadableStream<Uint8Array> {
    this.#unwanted.delete(type)
    const open = this.#split?.take(type, signal)
    if (open) return open
    this.#split?.supersede()
    this.#split = new SplitOutput(this.#driver, this.#unwanted)
    return this.#split.take(type, signal)!
  }

  /** A listener that throws ends the program, as its output has no reader left. `wait` reports the error. */
  async #tell(listeners: OutputListeners): Promise<void> {
    const text = new TextListeners(listeners)
    const guarded = (work: () => void) => {
      try {
        work()
      } catch (error) {
        this.#listenerError = { error }
        throw error
      }
    }
    try {
      await readToEnd(this.#driver, undefined, { output: (event) => guarded(() => text.push(event)) })
      guarded(() => text.flush())
    } catch {
      // Every other call on the process reports a lost connection itself.
      if (this.#listenerError) await this.#driver.kill('SIGKILL', {}).catch(() => {})
    }
  }

  #late(timeoutMs: number, cause: unknown): SandboxError {
    return new SandboxError(
      'timeout',
      `The process ${this.execId} had not ended after ${timeoutMs} ms; it keeps running.`,
      { cause },
    )
  }
}

async function waitForExit(driver: ProcessDriver, signal: AbortSignal | undefined): Promise<ProcessExit> {
  throwIfAborted(signal, 'Waiting for the process')
  const exit = driver.waitForExit
    ? await abortable(driver.waitForExit({ signal }), signal, 'Waiting for the process')
    : await readToEnd(driver, signal, { output: () => {} })
  const { exitCode, signal: killedBy, timedOut, oom, durationMs } = exit
  return { exitCode, signal: killedBy, timedOut, oom, durationMs }
}

const signals: readonly string[] = [
  'SIGTERM',
  'SIGKILL',
  'SIGINT',
  'SIGHUP',
  'SIGQUIT',
  'SIGUSR1',
  'SIGUSR2',
  'SIGSTOP',
  'SIGCONT',
] satisfies ProcessSignal[]
