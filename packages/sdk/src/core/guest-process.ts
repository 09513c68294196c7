import { SandboxError } from '../errors.ts'
import { abortable, abortedError, onAbort, throwIfAborted } from '../shared/calls/abort.ts'
import { throttled } from '../shared/calls/throttled.ts'
import { Coalesced } from '../shared/guest/coalesced.ts'
import { eventsOf, type GuestEvent, statusFrom } from '../shared/guest/events.ts'
import { type Launch, programScript } from '../shared/guest/launch.ts'
import type { GuestLink, GuestStream, Word } from '../shared/guest/link.ts'
import { randomId } from '../shared/ids.ts'
import { encode } from '../shared/output/bytes.ts'
import type {
  CallOptions,
  ProcessEvent,
  ProcessExit,
  ProcessInfo,
  ProcessSignal,
  ProcessStatus,
} from '../spec/index.ts'
import type { ProcessDriver, ProcessSpec } from './driver.ts'

/** A program and its keeper in the sandbox; see `shared/guest/README.md`. All its state is there, under its id. */
export class GuestProcess implements ProcessDriver {
  readonly execId: string
  readonly pid?: number
  readonly #link: GuestLink
  /** The start of the sandbox that the program belongs to. */
  readonly #start: string
  /** The response to the start continues with the output, for the first reader. */
  #first: { stream: GuestStream; reader: string } | undefined
  #exit: ProcessStatus | undefined
  #input: Promise<GuestStream> | undefined
  #stdinClosed: boolean
  #turn: Promise<unknown> = Promise.resolve()

  constructor(
    link: GuestLink,
    found: { execId: string; pid?: number | undefined; piped?: boolean; start?: string },
    first?: { stream: GuestStream; reader: string },
  ) {
    this.#link = link
    this.#start = found.start ?? link.start
    this.execId = found.execId
    if (found.pid !== undefined) this.pid = found.pid
    this.#stdinClosed = found.piped === false
    this.#first = first
  }

  async *events(after: number, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    throwIfAborted(signal, 'Reading the output')
    const first = after === 0 ? this.#first : undefined
    if (first) this.#first = undefined
    const reader = first?.reader ?? randomId()
    const { page } = this.#link
    let last = after
    let stream = first?.stream
    let failures = 0
    // A slow reader keeps its place: the keeper retains what it has not read.
    const keep = page && setInterval(() => void this.#ask('reader', [reader, 'keep']).catch(() => {}), keepMs)
    ;(keep as { unref?: () => void } | undefined)?.unref?.()
    try {
      for (;;) {
        try {
          stream ??= await this.#follow(last, reader, signal)
          for await (const event of this.#abortable(eventsOf(stream, last, this.#link), stream, signal)) {
            if (event.type === 'past') return
            last = event.seq
            failures = 0
            if (event.type === 'exit') this.#remember(event)
            yield event
            if (event.type === 'exit') return
          }
          if (!page) throw await stream.problem()
        } catch (error) {
          if (signal?.aborted) throw abortedError(signal, 'Reading the output')
          failures += 1
          if (!(await this.#link.goesOn?.(error, failures, signal))) throw error
        } finally {
          stream?.close()
          stream = undefined
        }
      }
    } finally {
      clearInterval(keep)
      if ((page || this.#link.lingers) && !this.#exit)
        void this.#ask('reader', [reader, 'leave']).catch(() => {})
    }
  }

  async kill(signal: ProcessSignal, call: CallOptions): Promise<boolean> {
    if (this.#exit) return false
    return (await this.#ask('kill', [signal.replace(/^SIG/, '')], call)).trim() === '1'
  }

  status(call: CallOptions): Promise<ProcessStatus> {
    return this.#status(call, 0)
  }

  async #status(call: CallOptions, waitMs: number): Promise<ProcessStatus> {
    if (this.#exit) return this.#exit
    const [, ...words] = (await this.#ask('status', [waitMs], call, { waitMs })).trim().split(' ')
    const status = statusFrom(words)
    if (status.exit) this.#exit = status
    return status
  }

  /** Not a reader: it neither slows the program nor keeps its output. */
  async waitForExit(call: CallOptions): Promise<ProcessExit> {
    const waitMs = this.#link.page?.waitMs ?? mostWaitMs
    for (let failures = 0; ; ) {
      throwIfAborted(call.signal, 'Waiting for the process')
      try {
        const { running, exit } = await this.#status(call, waitMs)
        if (exit) return exit
        if (!running) throw this.#unknownExit()
        failures = 0
      } catch (error) {
        failures += 1
        if (!(await this.#link.goesOn?.(error, failures, call.signal))) throw error
      }
    }
  }

  async write(data: Uint8Array, call: CallOptions = {}): Promise<void> {
    if (this.#stdinClosed || this.#exit) throw this.#closed()
    await this.#inTurn(() => this.#send(data, call))
  }

  async closeStdin(call: CallOptions = {}): Promise<void> {
    if (this.#stdinClosed) return
    this.#stdinClosed = true
    await this.#inTurn(async () => {
      const input = await this.#input?.catch(() => undefined)
      // The program must receive all input before end-of-file.
      await input?.endInput?.().catch(() => {})
      await this.#ask('eof', [], call)
    })
  }

  async resize({ cols, rows }: { cols: number; rows: number }, call: CallOptions): Promise<void> {
    await this.#ask('resize', [cols, rows], call)
  }

  /** Sends all chunks, then end-of-file. It is not an error if the program does not read them. */
  async feed(source: Coalesced): Promise<void> {
    try {
      for (let piece = await source.next(); piece; piece = await source.next()) await this.write(piece)
    } catch (error) {
      // The source or the connection failed: kill the program, so that it does not treat partial input as complete.
      if (!SandboxError.is(error, 'stdin_closed')) await this.kill('SIGKILL', {}).catch(() => {})
    } finally {
      source.release()
    }
    await this.closeStdin().catch(() => {})
  }

  async #send(data: Uint8Array, call: CallOptions): Promise<void> {
    const { upload, page } = this.#link
    if (!upload) {
      this.#input ??= this.#openInput()
      try {
        return await (await this.#input).write!(data, call.signal)
      } catch (error) {
        this.#input = undefined
        throw error
      }
    }
    const part = randomId()
    const small = data.byteLength <= mostInputBytes
    const file = small ? '-' : await upload(data, call)
    for (let first = true; ; first = false) {
      const input = first && small ? [data] : []
      const words = [part, page?.waitMs ?? 0, file]
      const word = (await this.#ask('feed', words, call, { input, waitMs: page?.waitMs ?? 0 })).trim()
      if (word === 'ok') return
      if (word !== 'wait') throw this.#closed()
    }
  }

  async #openInput(): Promise<GuestStream> {
    const stream = await this.#link.open('stdin', this.#words([]), { what: this.execId, stdin: true })
    const line = await stream.line().catch((error) => {
      throw SandboxError.is(error, 'not_found') ? this.#closed(error) : error
    })
    if (line !== 'ready') throw await stream.problem()
    void stream.discard?.()
    return stream
  }

  async #follow(after: number, reader: string, signal: AbortSignal | undefined): Promise<GuestStream> {
    const { page } = this.#link
    const words = this.#words([after, reader, page?.waitMs ?? 0, page?.bytes ?? 0])
    const call = { what: this.execId, signal, waitMs: page?.waitMs }
    const stream = await abortable(this.#link.open('follow', words, call), signal, 'Reading the output')
    if ((await stream.line()) === 'found') return stream
    throw await stream.problem()
  }

  async *#abortable<T>(
    events: AsyncIterable<T>,
    stream: GuestStream,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<T> {
    const forget = onAbort(signal, () => stream.close())
    try {
      for await (const event of events) {
        throwIfAborted(signal, 'Reading the output')
        yield event
      }
      throwIfAborted(signal, 'Reading the output')
    } finally {
      forget()
    }
  }

  #remember({ seq: _seq, type: _type, ...exit }: Extract<GuestEvent, { type: 'exit' }>): void {
    this.#exit = { running: false, exit }
  }

  /** Serializes input, because concurrent requests can arrive out of order. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#turn.then(work)
    this.#turn = turn.catch(() => {})
    return turn
  }

  #ask(
    verb: string,
    words: readonly Word[],
    { signal }: CallOptions = {},
    more: { input?: readonly Uint8Array[]; waitMs?: number } = {},
  ): Promise<string> {
    return this.#link.ask(verb, this.#words(words), { ...more, what: this.execId, signal })
  }

  #words(words: readonly Word[]): Word[] {
    return [this.#link.id, this.#start, this.execId, ...words]
  }

  #unknownExit(): SandboxError {
    const { provider, sandboxId } = this.#link
    return new SandboxError('interrupted', `The exit of the process ${this.execId} is unknown.`, {
      provider,
      sandboxId,
      hint: 'Its sandbox or its keeper ended first. Check what the program did, and start it again.',
    })
  }

  #closed(cause?: unknown): SandboxError {
    const { provider } = this.#link
    return new SandboxError('stdin_closed', 'The program’s stdin is closed.', { provider, cause })
  }
}

const keepMs = 20_000
/** How long one call waits for an exit where responses are streams. */
const mostWaitMs = 20_000
/** Linux limits the length of one variable, and base64 needs a third more. */
const mostInputBytes = 64 * 1024
/** The first response of a page waits this long for the end of a short program. */
const firstWaitMs = 300

const mostStarts = 8

export interface GuestStart {
  readonly script: string
  /** What the program is called in errors. */
  readonly what: string
  /** `i`, `f`, `r` and `t`; see `shared/guest/verbs.ts`. */
  readonly flags: string
  readonly label?: readonly string[]
  readonly data?: Uint8Array | undefined
}

/** Starts a program in its keeper, or finds the one with this id. */
export async function startGuest(
  link: GuestLink,
  spec: ProcessSpec,
  launch: Launch,
  call: CallOptions,
): Promise<GuestProcess> {
  const { cmd, args, stdin } = spec
  const script = programScript(launch, spec)
  const source = typeof stdin === 'string' ? undefined : new Coalesced(stdin)
  const data = await source?.whole(mostInputBytes)
  const mode = stdin === 'empty' || data?.byteLength === 0 ? '' : data ? 'f' : 'i'
  // The response to the start goes on with the output, unless the program has to be fed meanwhile.
  const flags = `${mode}${spec.reading && mode !== 'i' ? 'r' : ''}` || '-'
  const start = { script, what: cmd, flags, label: [cmd, ...args], data }
  try {
    // A start takes a dozen processes for a moment, and a sandbox may limit their number.
    const starting = () => startKeeper(link, spec, start, call)
    const { process, existed } = await throttled(`${link.provider}:${link.id}`, mostStarts, starting)
    if (source && !data && !existed) void process.feed(source)
    else source?.release()
    return process
  } catch (error) {
    source?.release()
    throw error
  }
}

export async function startKeeper(
  link: GuestLink,
  spec: Pick<ProcessSpec, 'execId' | 'cwd' | 'outputBufferBytes' | 'timeoutMs'>,
  { script, what, flags, label, data }: GuestStart,
  { signal }: CallOptions,
): Promise<{ process: GuestProcess; existed: boolean }> {
  const execId = spec.execId ?? randomId()
  const { page, id, start } = link
  const reader = randomId()
  const timeout =
    spec.timeoutMs === undefined ? '-' : (Math.max(1, Math.round(spec.timeoutMs)) / 1000).toFixed(3)
  const waitMs = flags.includes('r') && page ? Math.min(firstWaitMs, page.waitMs) : 0
  const words = [id, start, execId, spec.outputBufferBytes, timeout, flags, reader, waitMs, page?.bytes ?? 0]
  const input = [encode(script), labelOf(label), data ?? new Uint8Array(0)]
  let stream: GuestStream | undefined
  try {
    throwIfAborted(signal, `The command ${what}`)
    const opening = link.open('spawn', words, { input, what, waitMs, signal })
    stream = await abortable(opening, signal, `The command ${what}`)
    const forget = onAbort(signal, () => stream?.close())
    const line = await stream.line().finally(forget)
    throwIfAborted(signal, `The command ${what}`)
    const [, pid, existed, begun] = /^started (\d{1,10}|-) ([01]) ([\w.-]{1,100})$/.exec(line ?? '') ?? []
    if (begun === undefined) throw await stream.problem()
    const piped = flags.includes('i') || existed === '1'
    const found = { execId, pid: pid === '-' ? undefined : Number(pid), piped, start: begun }
    const first = flags.includes('r') ? { stream, reader } : undefined
    if (!first) stream.close()
    // Without an id of the caller, an earlier try of this call has started it.
    return {
      process: new GuestProcess(link, found, first),
      existed: existed === '1' && spec.execId !== undefined,
    }
  } catch (error) {
    stream?.close()
    // It may run although the response is lost. With an id, the caller finds it again.
    const lost = SandboxError.is(error, 'connection_lost', 'timeout', 'unavailable', 'provider_error')
    if (signal?.aborted || (lost && spec.execId === undefined)) {
      const cancelling = link.ask('cancel', [id, start, execId], {}).catch(() => {})
      if (signal?.aborted) await cancelling
    }
    throw signal?.aborted ? abortedError(signal, `The command ${what}`) : named(error, link, spec.cwd, what)
  }
}

export async function findGuest(link: GuestLink, execId: string, call: CallOptions): Promise<GuestProcess> {
  if (!/^[A-Za-z0-9.][A-Za-z0-9._-]{0,119}$/.test(execId)) throw noProcess(link, execId)
  const answer = await link.ask('status', [link.id, link.start, execId], {
    what: execId,
    signal: call.signal,
  })
  const pid = answer.split(' ')[0]!
  return new GuestProcess(link, { execId, pid: /^\d{1,10}$/.test(pid) ? Number(pid) : undefined })
}

/** Everything here comes from files in the sandbox: a line of another form is left out. */
export async function listGuests(link: GuestLink, { signal }: CallOptions): Promise<ProcessInfo[]> {
  const answer = await link.ask('processes', [link.id, link.start], { signal })
  return answer.split('\n').flatMap((line): ProcessInfo[] => {
    const [execId = '', seconds = '', label = '', ...words] = line.split(' ')
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(execId)) return []
    const startedAt = /^\d{1,11}$/.test(seconds) ? new Date(Number(seconds) * 1000) : undefined
    try {
      return [{ execId, ...statusFrom(words), ...commandFrom(label), ...(startedAt && { startedAt }) }]
    } catch {
      return []
    }
  })
}

function labelOf(label: readonly string[] | undefined): Uint8Array {
  const bytes = encode(label ? JSON.stringify(label) : '')
  return bytes.byteLength > mostLabelBytes ? new Uint8Array(0) : bytes
}

const mostLabelBytes = 32 * 1024

function commandFrom(label: string): Pick<ProcessInfo, 'cmd' | 'args'> {
  try {
    const words: unknown = JSON.parse(
      new TextDecoder().decode(Uint8Array.from(atob(label), (one) => one.charCodeAt(0))),
    )
    if (!Array.isArray(words) || words.some((word) => typeof word !== 'string')) return {}
    const [cmd, ...args] = words as string[]
    return cmd === undefined ? {} : { cmd, args }
  } catch {
    return {}
  }
}

function noProcess({ provider, sandboxId }: GuestLink, execId: string): SandboxError {
  return new SandboxError('not_found', `The process ${execId} does not exist in this sandbox.`, {
    provider,
    sandboxId,
    hint: 'List the processes of the sandbox. The oldest ended ones are removed.',
  })
}

/** Adds the program's or the folder's name to an error of the agent. */
function named(error: unknown, link: GuestLink, cwd: string | undefined, cmd: string): unknown {
  if (!SandboxError.is(error) || error.details.status === undefined) return error
  const { provider, sandboxId } = link
  const words: Partial<Record<string, string>> = {
    cwd_not_found: `The working directory ${cwd} does not exist.`,
    path_outside: `The working directory ${cwd} is outside the sandbox’s folder.`,
    command_not_found: `The program “${cmd}” does not exist ${link.place}.`,
    permission_denied: `“${cmd}” cannot be executed${cwd === undefined ? '' : `, or ${cwd} is not accessible`}.`,
  }
  const hints: Partial<Record<string, string>> = {
    permission_denied: 'Make it executable with files.chmod(path, 0o755).',
  }
  if (words[error.code] === undefined) return error
  return new SandboxError(error.code, words[error.code]!, {
    provider,
    sandboxId,
    cause: error,
    hint: hints[error.code],
    details: { cmd, cwd },
  })
}
