import { constants } from 'node:os'
import type { CallOptions, ExitEvent, ProcessEvent, ProcessSignal, ProcessStatus } from '@sandkasten/sdk'
import { SandboxError } from '@sandkasten/sdk'
import type { ProcessDriver, ProcessSpec } from '@sandkasten/sdk/provider'
import type { ProcessExit, RunnerClient, RunnerProcess, TaskInfo, TaskOutput } from '../index.ts'
import { overdue, overdueMs, within } from './overdue.ts'

/** The parts of its sandbox that a process needs: a live connection, and the number of out-of-memory kills. */
export interface ProcessHost {
  client(): Promise<RunnerClient>
  /** Whether a program without a caller's id ends with the connection, because it could not be found again. */
  readonly bound: boolean
  /** Streams that own a process's stdin. The runner allows one writer at a time, so all handles share it. */
  readonly writers: Map<string, TaskOutput>
  /** How often the kernel has killed a process of this sandbox for lack of memory; undefined if unknown. */
  oomKills(): Promise<number | undefined>
  /** Explains a failed call, if more is known than a lost connection. */
  explain?(error: unknown): Promise<unknown>
}

/** Makes a call, and lets the host explain its failure. */
export async function told<T>(host: ProcessHost, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw host.explain ? await host.explain(error) : error
  }
}

/** A process of the runner. Its state is looked up there by id, so it survives a reconnect. */
export class DrivenProcess implements ProcessDriver {
  readonly execId: string
  readonly pid?: number
  readonly #host: ProcessHost
  readonly #oomBefore: number | undefined
  readonly #timeoutMs: number | undefined
  readonly #started = performance.now()
  /** The stream of the start request, for the first reader. */
  #stream: TaskOutput | undefined
  #watching: TaskOutput | undefined
  #stdinClosed = false
  #ended = false

  constructor(
    host: ProcessHost,
    found: { execId: string; pid?: number; oomBefore?: number; timeoutMs?: number },
    stream?: RunnerProcess,
  ) {
    this.#host = host
    this.execId = found.execId
    if (found.pid !== undefined) this.pid = found.pid
    this.#oomBefore = found.oomBefore
    this.#timeoutMs = found.timeoutMs
    this.#stream = stream
  }

  async *events(after: number, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    const output = await told(this.#host, this.#open(after, signal))
    if (!output) return
    let last = after
    const abort = () => output.detach()
    signal?.addEventListener('abort', abort, { once: true })
    try {
      for (;;) {
        const event = await told(this.#host, this.#inTime(output.next()))
        if (signal?.aborted) throw aborted(signal)
        if (event === undefined) break
        if (event.type === 'gone') throw gone(after, event.to)
        last = event.number
        if (last <= after) continue
        yield { seq: event.number, type: event.channel, data: event.data }
      }
      yield await this.#exitEvent(await told(this.#host, this.#inTime(output.exit)), last)
    } finally {
      signal?.removeEventListener('abort', abort)
      output.detach()
    }
  }

  async kill(signal: ProcessSignal, call: CallOptions): Promise<boolean> {
    if (!(await this.status(call)).running) return false
    const client = await this.#host.client()
    await told(this.#host, client.signal(this.execId, signal, { group: true, signal: call.signal }))
    return true
  }

  async status(call: CallOptions): Promise<ProcessStatus> {
    const tasks = await told(this.#host, (await this.#host.client()).list({ signal: call.signal }))
    const task = tasks.find(({ id }) => id === this.execId)
    if (!task) throw new SandboxError('not_found', `The process ${this.execId} does not exist any more.`)
    return this.statusOf(task)
  }

  /** From a list of the runner. */
  async statusOf(task: Pick<TaskInfo, 'running' | 'exit'>): Promise<ProcessStatus> {
    if (task.running || !task.exit) return { running: true }
    return { running: false, exit: await this.#exitOf(task.exit) }
  }

  async waitForExit({ signal }: CallOptions): Promise<Omit<ExitEvent, 'seq' | 'type'>> {
    const client = await this.#host.client()
    return this.#exitOf(await told(this.#host, this.#inTime(client.wait(this.execId, { signal }))))
  }

  async write(data: Uint8Array): Promise<void> {
    if (this.#stdinClosed) throw stdinClosed()
    const stream = await this.#stdin()
    await told(this.#host, stream.write(data))
    // If the program exits during a write, the write looks successful; the exit follows a moment later.
    await new Promise((resolve) => setImmediate(resolve))
    if (this.#ended) throw stdinClosed()
  }

  async closeStdin(): Promise<void> {
    if (this.#stdinClosed) return
    const stream = await this.#stdin().catch(() => undefined)
    this.#stdinClosed = true
    await stream?.endStdin()
  }

  /** The runner ends the process at its timeout. If it does not, the caller stops waiting. */
  #inTime<T>(wait: Promise<T>): Promise<T> {
    const timeoutMs = this.#timeoutMs
    if (timeoutMs === undefined) return wait
    const left = Math.max(0, this.#started + timeoutMs - performance.now())
    return within(wait, left + overdueMs, () => overdue(timeoutMs))
  }

  /** The stream of the start request for the first reader; otherwise a new one. */
  async #open(after: number, signal: AbortSignal | undefined): Promise<TaskOutput | undefined> {
    if (after === 0 && this.#stream) {
      const stream = this.#stream
      this.#stream = undefined
      return stream
    }
    const client = await this.#host.client()
    if (after === 0) return client.attach(this.execId, { signal })
    // The runner numbers only output; the exit gets the next number. Nothing follows the exit.
    const task = (await client.list({ signal })).find(({ id }) => id === this.execId)
    if (task && !task.running && after > task.last) return undefined
    return client.attach(this.execId, { after: Math.min(after, task?.last ?? after), signal })
  }

  async #stdin(): Promise<TaskOutput> {
    const { writers } = this.#host
    const known = writers.get(this.execId)
    if (known) return this.#watched(known)
    const client = await this.#host.client()
    const stream = await client.attach(this.execId, { stdin: true, lossy: true }).catch((error) => {
      throw stdinClosed(error)
    })
    stream.discard()
    writers.set(this.execId, stream)
    return this.#watched(stream)
  }

  #watched(stream: TaskOutput): TaskOutput {
    if (this.#watching === stream) return stream
    this.#watching = stream
    const over = () => {
      this.#ended = true
    }
    stream.exit.then(over, over)
    return stream
  }

  async #exitEvent(exit: ProcessExit, last: number): Promise<ExitEvent> {
    return { seq: (exit.last ?? last) + 1, type: 'exit', ...(await this.#exitOf(exit)) }
  }

  async #exitOf(exit: ProcessExit): Promise<Omit<ExitEvent, 'seq' | 'type'>> {
    const { exitCode, signal, timedOut, durationMs } = exit
    const killed = signal === 'SIGKILL' || exitCode === 137
    const oom = killed && !timedOut ? await this.#ranOutOfMemory() : undefined
    return {
      exitCode: exitCode ?? 128 + (constants.signals[signal as NodeJS.Signals] ?? 0),
      signal,
      timedOut,
      oom: oom || undefined,
      durationMs,
    }
  }

  /** Whether the kernel has killed for lack of memory in this sandbox since this process started. */
  async #ranOutOfMemory(): Promise<boolean> {
    const now = await this.#host.oomKills().catch(() => undefined)
    return now !== undefined && this.#oomBefore !== undefined && now > this.#oomBefore
  }
}

/** Starts a program. With `reading`, the start request also serves the first reader, which saves a request. */
export async function startProcess(
  host: ProcessHost,
  client: RunnerClient,
  spec: ProcessSpec,
  place: { cwd: string; env: Readonly<Record<string, string>>; execId: string; oomBefore?: number },
  call: CallOptions,
): Promise<DrivenProcess> {
  if (spec.outputBufferBytes > maxRingBytes)
    throw new SandboxError('unsupported', `The runner keeps at most ${maxRingBytes} bytes of output.`, {
      hint: {
        sdk: 'Lower outputBufferBytes, and read sooner.',
        http: 'Lower output_buffer_bytes, and read sooner.',
        cli: 'Read the output sooner.',
      },
    })
  const { execId, cwd, env, oomBefore } = place
  const { timeoutMs } = spec
  const found = { execId, oomBefore, timeoutMs }
  const options = {
    id: execId,
    argv: [spec.cmd, ...spec.args],
    cwd,
    env,
    // No grace period at the timeout: KILL follows TERM at once.
    ...(timeoutMs === undefined ? {} : { timeoutMs, graceMs: 0, answerTimeoutMs: answerIn(timeoutMs) }),
    ringBytes: spec.outputBufferBytes,
    merged: spec.merged || undefined,
    // Without a caller's id, the program ends with the connection, because it could not be found again.
    bound: host.bound && spec.reading && spec.execId === undefined,
    signal: call.signal,
  }
  if (spec.stdin === 'empty' && spec.reading) {
    const stream = await started(spec.cmd, cwd, client.start(options))
    // No other caller knows its id, so the runner can forget it after its exit.
    if (spec.execId === undefined) stream.exit.then(() => client.forget(execId)).catch(() => {})
    return new DrivenProcess(host, { ...found, pid: stream.pid }, stream)
  }
  if (spec.stdin === 'empty') {
    const { pid } = await started(spec.cmd, cwd, client.startDetached(options))
    return new DrivenProcess(host, { ...found, pid })
  }
  // Stdin needs its own stream. Output on it is discarded, so that it never blocks the program.
  const stream = await started(spec.cmd, cwd, client.start({ ...options, stdin: true, lossy: true }))
  const process = withStdin(host, stream, found)
  if (spec.stdin !== 'pipe' && !stream.existed) void feed(process, spec.stdin)
  return process
}

/** The stdin stream of a process that this call started. The stdin of an existing process is taken over later. */
export function withStdin(
  host: ProcessHost,
  stream: RunnerProcess,
  known: { oomBefore?: number; timeoutMs?: number } = {},
): DrivenProcess {
  const found = { ...known, execId: stream.id, pid: stream.pid }
  if (stream.existed) {
    stream.detach()
    return new DrivenProcess(host, found)
  }
  stream.discard()
  host.writers.set(stream.id, stream)
  const forget = () => void host.writers.delete(stream.id)
  stream.exit.then(forget, forget)
  return new DrivenProcess(host, found)
}

/** Adds the program's or the folder's name to the runner's error. */
async function started<T>(cmd: string, cwd: string, start: Promise<T>): Promise<T> {
  try {
    return await start
  } catch (error) {
    const options = { cause: error, details: { cmd, cwd } }
    if (SandboxError.is(error, 'command_not_found'))
      throw new SandboxError(
        'command_not_found',
        `The program “${cmd}” does not exist in the sandbox.`,
        options,
      )
    if (SandboxError.is(error, 'cwd_not_found'))
      throw new SandboxError('cwd_not_found', `The working directory ${cwd} does not exist.`, options)
    if (SandboxError.is(error, 'permission_denied'))
      throw new SandboxError('permission_denied', `The program “${cmd}” cannot be executed.`, {
        ...options,
        hint: {
          sdk: 'Make it executable with files.chmod(path, 0o755).',
          http: 'Make it executable with POST /v1/sessions/{id}/files/chmod.',
          cli: 'Make it executable (chmod +x), or run it through its interpreter: sh SCRIPT.',
        },
      })
    throw error
  }
}

const maxRingBytes = 16 * 1024 * 1024

/** The runner responds when the program runs. Code in the sandbox can delay that until the timeout. */
const answerIn = (timeoutMs: number) => Math.min(60_000, timeoutMs + overdueMs)

/** Sends all chunks, then end-of-file. It is not an error if the program does not read them. */
async function feed(process: DrivenProcess, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const chunk of chunks) await process.write(chunk)
  } catch (error) {
    // The source failed: kill the program, so that it does not treat partial input as complete.
    if (!SandboxError.is(error, 'stdin_closed')) await process.kill('SIGKILL', {}).catch(() => {})
  }
  await process.closeStdin().catch(() => {})
}

function gone(after: number, oldest: number): SandboxError {
  return new SandboxError(
    'gone',
    `Output after event ${after} was dropped; the oldest kept is event ${oldest}.`,
    {
      details: { after, oldest },
    },
  )
}

function aborted(signal: AbortSignal): SandboxError {
  return new SandboxError('aborted', 'Reading the output was cancelled by its AbortSignal.', {
    cause: signal.reason,
  })
}

function stdinClosed(cause?: unknown): SandboxError {
  return new SandboxError('stdin_closed', 'The program’s stdin is closed.', { cause })
}
