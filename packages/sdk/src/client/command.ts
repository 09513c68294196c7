import { SandboxError } from '../errors.ts'
import { throwIfAborted } from '../shared/calls/abort.ts'
import { encode } from '../shared/output/bytes.ts'
import { HeadTail } from '../shared/output/collect.ts'
import { partialBytes, withOutput } from '../shared/output/partial.ts'
import type {
  CallOptions,
  OutputOptions,
  ProcessEvent,
  ProcessSignal,
  ShellExecOptions,
} from '../spec/index.ts'
import { type Http, segment } from './http.ts'
import { ReconnectDelay } from './reconnect-delay.ts'
import { type ServerEvent, serverEvents } from './server-events.ts'
import type { CommandInfo, ExecResult, RunResult } from './types.ts'
import { commandInfo, commandResult, fromBase64 } from './wire.ts'

/** How long the response to a start is kept for the first reader. */
const firstReaderMs = 250
/** Size of one chunk of input: the daemon can still read and discard one when the program ends. */
const inputBytes = 256 * 1024

/** A command with an id. It continues without readers; its output is numbered and kept. */
export class Command {
  readonly execId: string
  readonly #http: Http
  readonly #path: string
  #first: Response | undefined
  #lastInput: Promise<unknown> = Promise.resolve()

  constructor(http: Http, sessionPath: string, execId: string, first?: Response) {
    this.#http = http
    this.execId = execId
    this.#path = `${sessionPath}/execs/${segment(execId, 'command')}`
    if (first) this.#keep(first)
  }

  /** With `waitMs`, waits up to this time for the end of the command. */
  async info({ waitMs, signal }: CallOptions & { waitMs?: number } = {}): Promise<CommandInfo> {
    this.#letGo()
    return commandInfo(await this.#http.json('GET', this.#path, { query: { wait_ms: waitMs }, signal }))
  }

  /**
   * Output events after the event number `after`, up to and including `exit`. Resumes after lost connections and
   * restarts of the daemon without losing or repeating events. Throws `gone`, with `details.oldest`, when the daemon
   * has dropped events after `after`.
   */
  async *output({ after = 0, signal }: OutputOptions = {}): AsyncGenerator<ProcessEvent> {
    for await (const event of this.#events(after, signal)) yield processEvent(event)
  }

  /**
   * Resolves with the result when the command ends. `onOutput` receives its output before. An `aborted` error has the
   * output so far in `details`: `stdout` and `stderr`, or `output` of a shell command.
   */
  async wait<T extends RunResult | ExecResult>(
    options: CallOptions & Pick<ShellExecOptions, 'onOutput'> = {},
  ): Promise<T> {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    const tell = async (text: string) => text !== '' && (await options.onOutput?.(text))
    const kept = new Map<string, HeadTail>()
    try {
      for await (const event of this.#events(0, options.signal)) {
        if (event.event !== 'exit') {
          const bytes = bytesOf(event)
          keptOf(kept, event.event).push(bytes)
          await tell(decoder.decode(bytes, { stream: true }))
        } else {
          await tell(decoder.decode())
          return commandResult<T>(event.data)
        }
      }
    } catch (error) {
      throw withOutput(error, Object.fromEntries([...kept].map(([name, part]) => [name, part.text()])))
    }
    throw new SandboxError(
      'interrupted',
      `The result of the command ${this.execId} is unknown: its output ended without an exit event.`,
    )
  }

  /** Sends a signal to the command and all programs it started. False when it has ended. */
  async signal(signal: ProcessSignal = 'SIGTERM', options: CallOptions = {}): Promise<boolean> {
    const path = `${this.#path}/signal`
    const answer = await this.#http.json<{ signalled: boolean }>('POST', path, {
      json: { signal },
      signal: options.signal,
    })
    return answer.signalled
  }

  /** Resolves when the daemon has accepted the input. Writes of one handle keep their order. */
  async write(
    data: string | Uint8Array,
    options: CallOptions & { eof?: boolean | undefined } = {},
  ): Promise<void> {
    const writing = this.#lastInput.then(() => this.#write(encode(data), options))
    this.#lastInput = writing.catch(() => {})
    return writing
  }

  closeStdin(options: CallOptions = {}): Promise<void> {
    return this.write(new Uint8Array(0), { ...options, eof: true })
  }

  async #write(bytes: Uint8Array, { eof = false, signal }: CallOptions & { eof?: boolean | undefined }) {
    for (let at = 0; at === 0 || at < bytes.byteLength; at += inputBytes) {
      const body = bytes.slice(at, at + inputBytes)
      const last = at + inputBytes >= bytes.byteLength
      await this.#http.done('POST', `${this.#path}/stdin`, {
        query: { eof: (eof && last) || undefined },
        body,
        signal,
      })
    }
  }

  async *#events(after: number, signal: AbortSignal | undefined): AsyncGenerator<ServerEvent> {
    const reconnectDelay = new ReconnectDelay()
    let last = after
    for (;;) {
      let came = false
      try {
        for await (const event of serverEvents(await this.#open(last, signal), signal)) {
          reconnectDelay.restore()
          if (event.event === 'start' || event.id === undefined || event.id <= last) continue
          came = true
          last = event.id
          yield event
          if (event.event === 'exit') return
        }
        // The stream ended without `exit`: the daemon is shutting down, or `after` was the last event.
        const { status } = await this.info({ signal })
        if (status === 'done' && !came) return
        if (status === 'lost') throw lost(this.execId)
      } catch (error) {
        throwIfAborted(signal, 'Reading the output')
        if (!SandboxError.is(error, 'connection_lost', 'unavailable') || reconnectDelay.over()) throw error
      }
      if (!came) await reconnectDelay.wait(signal)
    }
  }

  /** The response to the start for the first reader from the beginning; otherwise a new request. */
  async #open(after: number, signal: AbortSignal | undefined): Promise<Response> {
    const first = this.#first
    if (first && after === 0) {
      this.#first = undefined
      return first
    }
    this.#letGo()
    const query = { after }
    return this.#http.send('GET', `${this.#path}/output`, { query, signal })
  }

  /** An unread stream slows the program down, so cancel it after a moment, or before another request. */
  #keep(response: Response): void {
    this.#first = response
    const timer = setTimeout(() => this.#letGo(), firstReaderMs)
    ;(timer as { unref?: () => void }).unref?.()
  }

  #letGo(): void {
    void this.#first?.body?.cancel().catch(() => {})
    this.#first = undefined
  }
}

function keptOf(kept: Map<string, HeadTail>, name: string): HeadTail {
  const part = kept.get(name) ?? new HeadTail(partialBytes)
  kept.set(name, part)
  return part
}

function processEvent({ event, id, data }: ServerEvent): ProcessEvent {
  const seq = id!
  if (event !== 'exit')
    return { seq, type: event === 'stderr' ? 'stderr' : 'stdout', data: bytesOf({ event, data }) }
  return {
    seq,
    type: 'exit',
    exitCode: data.exit_code,
    signal: data.signal,
    timedOut: data.timed_out ?? false,
    oom: data.oom,
    durationMs: data.duration_ms ?? 0,
  }
}

function bytesOf({ data }: ServerEvent): Uint8Array {
  return typeof data.text === 'string' ? encode(data.text) : fromBase64(data.base64)
}

function lost(execId: string): SandboxError {
  return new SandboxError(
    'interrupted',
    `The result of the command ${execId} is unknown: its sandbox or its shell ended first.`,
    { hint: 'Check the effects of the command, and run it again if needed.' },
  )
}
