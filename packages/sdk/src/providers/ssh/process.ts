import { constants } from 'node:os'
import type { ProcessDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { abortedError, onAbort } from '../../shared/calls/abort.ts'
import type {
  CallOptions,
  ExitEvent,
  ProcessEvent,
  ProcessExit,
  ProcessSignal,
  ProcessStatus,
} from '../../spec/index.ts'
import { agentError } from './errors.ts'
import type { Agent, AgentCall, AgentStream } from './guest/agent.ts'

export interface ProcessPlace {
  readonly agent: Agent
  readonly sandboxId: string
  readonly incarnation: string
  check(): Promise<void>
}

export interface FollowedExit extends ExitEvent {
  readonly restarted?: boolean
  readonly cwd?: string
}

/** A program that the agent supervises. All its state is on the host, under its id. */
export class SshProcess implements ProcessDriver {
  readonly execId: string
  readonly pid?: number
  readonly #place: ProcessPlace
  /** The response to the start continues with the output, for the first reader. */
  #stream: AgentStream | undefined
  #input: Promise<AgentStream> | undefined
  #stdinClosed = false

  constructor(place: ProcessPlace, found: { execId: string; pid?: number }, stream?: AgentStream) {
    this.#place = place
    this.execId = found.execId
    if (found.pid !== undefined) this.pid = found.pid
    this.#stream = stream
  }

  async *events(after: number, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    const first = after === 0 ? this.#stream : undefined
    if (first) this.#stream = undefined
    const stream = first ?? (await this.#follow(after, signal))
    yield* follow(this.#place, stream, after, signal)
  }

  async kill(signal: ProcessSignal, call: CallOptions): Promise<boolean> {
    return (await this.#call('kill', [signal.replace(/^SIG/, '')], call)).trim() === '1'
  }

  async status(call: CallOptions): Promise<ProcessStatus> {
    const [, ...words] = (await this.#call('status', [], call)).trim().split(' ')
    return statusFrom(words)
  }

  async write(data: Uint8Array): Promise<void> {
    if (this.#stdinClosed) throw stdinClosed()
    this.#input ??= this.#openInput()
    try {
      await (await this.#input).write(data)
    } catch (error) {
      this.#input = undefined
      throw error
    }
  }

  async closeStdin(call: CallOptions = {}): Promise<void> {
    if (this.#stdinClosed) return
    this.#stdinClosed = true
    const input = await this.#input?.catch(() => undefined)
    input?.endInput()
    // The program must receive all input before end-of-file.
    await input?.finish().catch(() => {})
    await this.#call('eof', [], call)
  }

  /** Sends all chunks, then end-of-file. It is not an error if the program does not read them. */
  async feed(chunks: AsyncIterable<Uint8Array>): Promise<void> {
    try {
      for await (const chunk of chunks) await this.write(chunk)
    } catch (error) {
      // The source or the connection failed: kill the program, so that it does not treat partial input as complete.
      if (!SandboxError.is(error, 'stdin_closed')) await this.kill('SIGKILL', {}).catch(() => {})
    }
    await this.closeStdin().catch(() => {})
  }

  async #openInput(): Promise<AgentStream> {
    const stream = await this.#place.agent.open('stdin', this.#words([]), this.#about)
    const line = await stream.line().catch((error) => {
      throw SandboxError.is(error, 'not_found') ? stdinClosed(error) : error
    })
    if (line !== 'ready') throw await stream.problem()
    void stream.discard()
    return stream
  }

  async #follow(after: number, signal: AbortSignal | undefined): Promise<AgentStream> {
    const stream = await this.#place.agent.open('follow', this.#words([after]), { ...this.#about, signal })
    if ((await stream.line()) !== 'found') throw await stream.problem()
    return stream
  }

  #call(verb: string, words: string[], { signal }: CallOptions): Promise<string> {
    return this.#place.agent.call(verb, this.#words(words), { ...this.#about, signal })
  }

  #words(more: Array<string | number>): Array<string | number> {
    const { sandboxId, incarnation } = this.#place
    return [sandboxId, incarnation, this.execId, ...more]
  }

  get #about(): AgentCall {
    return { sandboxId: this.#place.sandboxId, what: this.execId }
  }
}

export async function* follow(
  place: ProcessPlace,
  stream: AgentStream,
  after: number,
  signal?: AbortSignal,
): AsyncGenerator<ProcessEvent, void, void> {
  const forget = onAbort(signal, () => stream.close())
  try {
    for (;;) {
      const line = await stream.line()
      if (signal?.aborted) throw abortedError(signal, 'Reading the output')
      if (line === undefined) return await cutOff(place, stream, after)
      const [kind, ...words] = line.split(' ')
      const seq = number(words[0])
      if (kind === 'o' || kind === 'e') {
        const data = await stream.bytes(number(words[1], 1024 * 1024))
        if (signal?.aborted) throw abortedError(signal, 'Reading the output')
        yield { seq, type: kind === 'o' ? 'stdout' : 'stderr', data }
      } else if (kind === 'x') {
        yield exitEvent(seq, words.slice(1))
        return
      } else if (kind === 'g') {
        throw new SandboxError(
          'gone',
          `Output after event ${after} was dropped; the oldest kept is event ${seq}.`,
          {
            provider: 'ssh',
            details: { after, oldest: seq },
          },
        )
      } else throw agentError(undefined, { what: 'an invalid line' })
    }
  } catch (error) {
    throw signal?.aborted ? abortedError(signal, 'Reading the output') : error
  } finally {
    forget()
    stream.close()
  }
}

export function statusFrom([state, ...words]: readonly string[]): ProcessStatus {
  if (state === 'running') return { running: true }
  if (state !== 'ended') return { running: false }
  const { seq: _seq, type: _type, ...exit } = exitEvent(0, words)
  return { running: false, exit }
}

/** Handles a stream without an exit: the caller has already seen it, or the stream or the sandbox has ended. */
async function cutOff(place: ProcessPlace, stream: AgentStream, after: number): Promise<void> {
  const problem = await stream.problem()
  if (stream.status === undefined) throw problem
  await place.check()
  if (stream.status === 0 && after > 0) return
  throw problem
}

function exitEvent(seq: number, words: readonly string[]): FollowedExit {
  const [code, name, timedOut, durationMs, restarted, cwd] = words
  const signal = name === undefined || name === '-' ? undefined : `SIG${name}`
  const exit: ProcessExit = {
    exitCode: number(code),
    signal: signal !== undefined && signal in constants.signals ? signal : undefined,
    timedOut: timedOut === '1',
    durationMs: number(durationMs),
  }
  return {
    seq,
    type: 'exit',
    ...exit,
    restarted: restarted ? restarted === '1' : undefined,
    cwd: cwd && cwd !== '-' ? folderFrom(cwd) : undefined,
  }
}

export function folderFrom(encoded: string): string {
  return Buffer.from(encoded, 'base64').toString('utf8').replace(/\n$/, '')
}

function number(text: string | undefined, most = Number.MAX_SAFE_INTEGER): number {
  const value = /^\d{1,16}$/.test(text ?? '') ? Number(text) : Number.NaN
  if (value <= most) return value
  throw agentError(undefined, { what: `an invalid number: ${JSON.stringify(text)?.slice(0, 40)}` })
}

function stdinClosed(cause?: unknown): SandboxError {
  return new SandboxError('stdin_closed', 'The program’s stdin is closed.', { provider: 'ssh', cause })
}
