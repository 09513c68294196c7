import type { ProcessDriver, ProcessSpec } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { abortable, throwIfAborted } from '../../shared/calls/abort.ts'
import { randomId } from '../../shared/ids.ts'
import { concat } from '../../shared/output/bytes.ts'
import type {
  CallOptions,
  ProcessEvent,
  ProcessExit,
  ProcessSignal,
  ProcessStatus,
} from '../../spec/index.ts'
import { fromBase64 } from './base64.ts'
import { type Incarnation, mostInputBytes } from './incarnation.ts'
import { again } from './retry.ts'

const keepMs = 20_000
const pausedMs = 250
const pageBytes = 1024 * 1024

/** A program in the sandbox, and its keeper, which holds its output and input. */
export class DaytonaProcess implements ProcessDriver {
  readonly execId: string
  readonly #incarnation: Incarnation
  readonly #piped: boolean
  /** Events in the response to the start: the first page of the first reader. */
  #first: { rid: string; events: ProcessEvent[] } | undefined
  #exit: ProcessExit | undefined
  #stdinClosed = false
  #turn: Promise<unknown> = Promise.resolve()
  /** Called after the exit was read. */
  onEnd?: (execId: string) => void

  constructor(incarnation: Incarnation, execId: string, options: { piped?: boolean } = {}) {
    this.#incarnation = incarnation
    this.execId = execId
    this.#piped = options.piped ?? true
  }

  /** Starts the program, or finds the program with this id. */
  static async start(
    incarnation: Incarnation,
    spec: ProcessSpec & { terminal?: { cols: number; rows: number } },
    call: CallOptions,
    forget: readonly string[] = [],
  ): Promise<DaytonaProcess> {
    const execId = spec.execId ?? `p-${randomId()}`
    const rid = spec.reading ? randomId() : '-'
    const { head, rest } = await firstInput(spec.stdin)
    const mode = spec.terminal
      ? `t${spec.terminal.cols}x${spec.terminal.rows}`
      : spec.stdin === 'empty'
        ? 'n'
        : spec.stdin === 'pipe' || rest
          ? 'p'
          : 'd'
    const args = [
      'start',
      execId,
      rid,
      String(incarnation.pollMs),
      String(Math.ceil(spec.timeoutMs ?? 0)),
      String(spec.outputBufferBytes),
      mode,
      forget.join(','),
      spec.cwd ?? '',
      spec.cmd,
      ...spec.args,
    ]
    const lines = await again(
      () =>
        incarnation.ask(args, {
          ...call,
          env: spec.env,
          waitMs: rid === '-' ? 0 : incarnation.pollMs,
          input: mode === 'd' ? head : undefined,
        }),
      call.signal,
    )
    const process = new DaytonaProcess(incarnation, execId, { piped: spec.stdin !== 'empty' })
    if (spec.reading) process.#first = { rid, events: process.#eventsOf(lines.slice(1)) }
    if (rest) void process.#feed(head, rest)
    return process
  }

  async *events(after: number, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    const first = after === 0 ? this.#first : undefined
    this.#first = undefined
    const rid = first?.rid ?? randomId()
    let from = after
    let page = first?.events
    // Renew a slow reader's registration: the keeper retains the output that it has not read.
    let reading = false
    const keep = setInterval(() => reading || void this.#read(rid, from, 0).catch(() => {}), keepMs)
    ;(keep as { unref?: () => void }).unref?.()
    try {
      for (;;) {
        throwIfAborted(signal, 'Reading the output')
        for (const event of page ?? []) {
          from = event.seq
          yield event
          if (event.type !== 'exit') continue
          this.onEnd?.(this.execId)
          return
        }
        reading = true
        page = await abortable(this.#awake(rid, from, signal), signal, 'Reading the output')
        reading = false
        // The exit is the last event.
        if (page === undefined) return
      }
    } finally {
      clearInterval(keep)
      if (!this.#exit) void this.#ask(['bye', rid]).catch(() => {})
    }
  }

  async kill(signal: ProcessSignal, call: CallOptions): Promise<boolean> {
    if (this.#exit) return false
    const [line] = await this.#ask(['kill', signal.replace(/^SIG/, '')], call)
    return line === '1'
  }

  async resize({ cols, rows }: { cols: number; rows: number }, call: CallOptions): Promise<void> {
    await this.#ask(['size', `${cols}x${rows}`], call)
  }

  async status(call: CallOptions): Promise<ProcessStatus> {
    if (this.#exit) return { running: false, exit: this.#exit }
    const [line = ''] = await this.#ask(['status'], call)
    if (line === 'running') return { running: true }
    this.#exit = exitOf(line.split(' ').slice(1))
    return { running: false, exit: this.#exit }
  }

  async write(data: Uint8Array, call: CallOptions): Promise<void> {
    if (this.#stdinClosed || !this.#piped) throw closed()
    await this.#inTurn(() => this.#send(data, false, call))
  }

  async closeStdin(call: CallOptions): Promise<void> {
    if (this.#stdinClosed || !this.#piped) return
    this.#stdinClosed = true
    await this.#inTurn(() => this.#send(new Uint8Array(0), true, call)).catch((error: unknown) => {
      // The stdin of an ended program is already closed.
      if (!SandboxError.is(error, 'stdin_closed')) throw error
    })
  }

  /** Sends all chunks, then end-of-file. It is not an error if the program does not read them. */
  async #feed(head: Uint8Array, rest: AsyncIterator<Uint8Array>): Promise<void> {
    let done = false
    try {
      await this.#inTurn(() => this.#send(head, false, {}))
      while (!done) {
        const { block, last } = await blockOf(rest)
        done = last
        await this.#inTurn(() => this.#send(block, last, {}))
      }
    } catch (error) {
      // The source failed: kill the program, so that it does not treat partial input as complete.
      if (!SandboxError.is(error, 'stdin_closed')) await this.kill('SIGKILL', {}).catch(() => {})
    } finally {
      if (!done) void Promise.resolve(rest.return?.()).catch(() => {})
    }
  }

  /** Serializes input, because concurrent requests can arrive out of order. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#turn.then(work)
    this.#turn = turn.catch(() => {})
    return turn
  }

  /** Resolves when the program's pipe has taken the data. */
  async #send(data: Uint8Array, eof: boolean, call: CallOptions): Promise<void> {
    const id = randomId()
    let file = '-'
    const small = data.byteLength <= mostInputBytes
    if (!small) file = await this.#incarnation.upload(data, call)
    for (let first = true; ; first = false) {
      const text = first && small && data.byteLength > 0 ? '@input' : '-'
      const request = ['feed', id, file, text, eof ? '1' : '0', String(this.#incarnation.pollMs)]
      const [line] = await this.#ask(request, {
        ...call,
        waitMs: this.#incarnation.pollMs,
        input: text === '-' ? undefined : data,
      })
      if (line === 'ok') return
      if (line === 'closed') throw closed()
    }
  }

  /** The next page of output. A paused sandbox returns no page, but its program has not ended. */
  async #awake(rid: string, after: number, signal?: AbortSignal): Promise<ProcessEvent[] | undefined> {
    for (;;) {
      try {
        return await this.#read(rid, after, this.#incarnation.pollMs, signal)
      } catch (error) {
        const state = SandboxError.is(error, 'not_running') ? error.details.state : undefined
        if (state !== 'paused' && state !== 'pausing' && state !== 'resuming') throw error
        await new Promise((resolve) => setTimeout(resolve, pausedMs))
        throwIfAborted(signal, 'Reading the output')
      }
    }
  }

  async #read(
    rid: string,
    after: number,
    waitMs: number,
    signal?: AbortSignal,
  ): Promise<ProcessEvent[] | undefined> {
    const request = ['read', rid, after, pageBytes, waitMs, 0].map(String)
    const lines = await this.#ask(request, { waitMs, signal })
    return lines[0] === 'z' ? undefined : this.#eventsOf(lines, after)
  }

  /** Retries are safe: repeating one of these requests has no further effect. */
  #ask(request: readonly string[], call: CallOptions & { waitMs?: number; input?: Uint8Array } = {}) {
    return again(() => this.#incarnation.ask(['ask', this.execId, request.join(' ')], call), call.signal)
  }

  #eventsOf(lines: readonly string[], after = 0): ProcessEvent[] {
    return lines.map((line) => {
      const [kind, number, ...rest] = line.split(' ')
      const seq = Number(number)
      if (kind === 'g')
        throw new SandboxError(
          'gone',
          `Output after event ${after} was dropped; the oldest kept is event ${seq}.`,
          {
            details: { after, oldest: seq },
          },
        )
      if (kind !== 'x') return { seq, type: kind === 'o' ? 'stdout' : 'stderr', data: fromBase64(rest[0]!) }
      this.#exit = exitOf(rest)
      return { seq, type: 'exit', ...this.#exit }
    })
  }
}

export function exitOf([code, signal, late, durationMs]: readonly string[]): ProcessExit {
  const name = signals[Number(signal)]
  return {
    exitCode: Number(signal) > 0 ? 128 + Number(signal) : Number(code),
    signal: name,
    timedOut: late === '1',
    durationMs: Number(durationMs),
  }
}

const signals: Readonly<Record<number, string>> = {
  1: 'SIGHUP',
  2: 'SIGINT',
  3: 'SIGQUIT',
  4: 'SIGILL',
  6: 'SIGABRT',
  7: 'SIGBUS',
  8: 'SIGFPE',
  9: 'SIGKILL',
  10: 'SIGUSR1',
  11: 'SIGSEGV',
  12: 'SIGUSR2',
  13: 'SIGPIPE',
  14: 'SIGALRM',
  15: 'SIGTERM',
  24: 'SIGXCPU',
  25: 'SIGXFSZ',
  31: 'SIGSYS',
}

function closed(): SandboxError {
  return new SandboxError('stdin_closed', 'The program’s stdin is closed.', { provider: 'daytona' })
}

const blockBytes = 1024 * 1024

/** Splits stdin: the part that fits into the first request, and the rest. */
async function firstInput(
  stdin: ProcessSpec['stdin'],
): Promise<{ head: Uint8Array; rest?: AsyncIterator<Uint8Array> }> {
  if (typeof stdin === 'string') return { head: new Uint8Array(0) }
  const chunks = stdin[Symbol.asyncIterator]()
  const { block, last } = await blockOf(chunks, mostInputBytes)
  return last && block.byteLength <= mostInputBytes ? { head: block } : { head: block, rest: chunks }
}

/** Combines chunks, so that each request carries more data. Waits for a slow source. */
async function blockOf(
  chunks: AsyncIterator<Uint8Array>,
  most = blockBytes,
): Promise<{ block: Uint8Array; last: boolean }> {
  const parts: Uint8Array[] = []
  let size = 0
  while (size < most) {
    const { done, value } = await chunks.next()
    if (done) return { block: concat(parts), last: true }
    parts.push(value)
    size += value.byteLength
  }
  return { block: concat(parts), last: false }
}
