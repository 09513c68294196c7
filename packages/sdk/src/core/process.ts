import { SandboxError } from '../errors.ts'
import { abortable, throwIfAborted } from '../shared/calls/abort.ts'
import { encode, streamOf } from '../shared/output/bytes.ts'
import { HeadTail } from '../shared/output/collect.ts'
import type {
  CallOptions,
  Capabilities,
  CommandResult,
  ExitEvent,
  OutputBudget,
  OutputOptions,
  ProcessCore,
  ProcessEvent,
  ProcessSignal,
  ProcessStatus,
  ProcessStdin,
  WaitOptions,
} from '../spec/index.ts'
import type { ProcessDriver } from './driver.ts'
import { unsupported } from './supports.ts'
import { checkCount, checkMs, invalid } from './validate.ts'

export const defaultMaxOutputBytes = 4 * 1024 * 1024

export class SandboxProcess implements ProcessCore, ProcessStdin {
  readonly execId: string
  readonly pid?: number
  readonly #driver: ProcessDriver
  readonly #owner: { provider: string; capabilities: Capabilities }

  constructor(driver: ProcessDriver, owner: { provider: string; capabilities: Capabilities }) {
    this.#driver = driver
    this.#owner = owner
    this.execId = driver.execId
    if (driver.pid !== undefined) this.pid = driver.pid
  }

  output(options: OutputOptions = {}): AsyncIterable<ProcessEvent> {
    const after = options.after ?? 0
    if (!Number.isInteger(after) || after < 0)
      throw invalid(`\`after\` is ${after}.`, 'Use the number of the last event that you received, or 0.')
    return this.#driver.events(after, options.signal)
  }

  stdout(options: CallOptions = {}): ReadableStream<Uint8Array> {
    return streamOf(only('stdout', this.output(options)))
  }

  stderr(options: CallOptions = {}): ReadableStream<Uint8Array> {
    return streamOf(only('stderr', this.output(options)))
  }

  async wait(options: WaitOptions = {}): Promise<CommandResult> {
    const max =
      options.maxOutputBytes === undefined
        ? defaultMaxOutputBytes
        : checkCount(options.maxOutputBytes, 'maxOutputBytes', 2 ** 30)
    if (options.timeoutMs === undefined) return collect(this.#driver, max, options)
    const timeoutMs = checkMs(options.timeoutMs, 'timeoutMs')
    const clock = AbortSignal.timeout(timeoutMs)
    const signal = options.signal ? AbortSignal.any([options.signal, clock]) : clock
    try {
      return await collect(this.#driver, max, { signal })
    } catch (error) {
      if (!clock.aborted || options.signal?.aborted) throw error
      throw new SandboxError(
        'timeout',
        `The process ${this.execId} had not ended after ${timeoutMs} ms; it keeps running.`,
        { cause: error },
      )
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

export interface CollectOptions extends CallOptions {
  onStdout?: ((text: string) => void) | undefined
  onStderr?: ((text: string) => void) | undefined
  outputBudget?: OutputBudget | undefined
}

/** Reads a process until its exit and keeps a bounded part of its output. */
export async function collect(
  driver: ProcessDriver,
  maxBytes: number,
  options: CollectOptions,
): Promise<CommandResult> {
  const stdout = new StreamCollector(maxBytes, options.outputBudget, options.onStdout)
  const stderr = new StreamCollector(maxBytes, options.outputBudget, options.onStderr)
  const { exit, missed } = await readToEnd(driver, options.signal, (event) => {
    const stream = event.type === 'stdout' ? stdout : stderr
    stream.push(event.data)
    return options.outputBudget?.pace?.(event.data.byteLength)
  })
  stdout.flush()
  stderr.flush()
  const { exitCode, signal, timedOut, oom, durationMs } = exit
  return {
    exitCode,
    stdout: stdout.text(),
    stderr: stderr.text(),
    signal,
    timedOut,
    truncated: missed || stdout.truncated || stderr.truncated,
    oom,
    durationMs,
  }
}

/** Yields all remaining events. If the beginning was dropped, starts at the oldest event and reports it. */
async function readToEnd(
  driver: ProcessDriver,
  signal: AbortSignal | undefined,
  onOutput: (event: Extract<ProcessEvent, { data: Uint8Array }>) => Promise<void> | undefined,
): Promise<{ exit: ExitEvent; missed: boolean }> {
  let after = 0
  let missed = false
  for (;;) {
    try {
      for await (const event of driver.events(after, signal)) {
        if (event.type === 'exit') return { exit: event, missed }
        const pause = onOutput(event)
        if (pause) await pause
        after = event.seq
      }
    } catch (error) {
      const oldest = SandboxError.is(error, 'gone') ? error.details.oldest : undefined
      if (typeof oldest !== 'number' || oldest - 1 <= after) throw error
      missed = true
      after = oldest - 1
      continue
    }
    throw new SandboxError(
      'connection_lost',
      `The output of process ${driver.execId} ended without an exit status.`,
    )
  }
}

class StreamCollector {
  readonly #kept: HeadTail
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #listener: ((text: string) => void) | undefined

  constructor(
    maxBytes: number,
    budget: OutputBudget | undefined,
    listener: ((text: string) => void) | undefined,
  ) {
    this.#kept = new HeadTail(maxBytes, budget)
    this.#listener = listener
  }

  get truncated(): boolean {
    return this.#kept.truncated
  }

  push(data: Uint8Array): void {
    this.#kept.push(data)
    if (this.#listener) this.#tell(this.#decoder.decode(data, { stream: true }))
  }

  flush(): void {
    if (this.#listener) this.#tell(this.#decoder.decode())
  }

  text(): string {
    return this.#kept.text()
  }

  #tell(text: string): void {
    if (text !== '') this.#listener?.(text)
  }
}

async function* only(
  type: 'stdout' | 'stderr',
  events: AsyncIterable<ProcessEvent>,
): AsyncGenerator<Uint8Array> {
  for await (const event of events) if (event.type === type) yield event.data
}
