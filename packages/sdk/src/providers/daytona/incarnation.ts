import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { abortable, throwIfAborted } from '../../shared/calls/abort.ts'
import { Silence } from '../../shared/calls/silence-timeout.ts'
import { guestError } from '../../shared/guest/errors.ts'
import { type FramedResponse, framed, TextStream } from '../../shared/guest/framed.ts'
import { linesInEnv } from '../../shared/guest/lines.ts'
import type { GuestCall, GuestLink, Word } from '../../shared/guest/link.ts'
import { agentMissing, agentName, agentScript, framedLine, guestFolder } from '../../shared/guest/place.ts'
import { randomId } from '../../shared/ids.ts'
import { chunksOf } from '../../shared/output/bytes.ts'
import { quoteArgs } from '../../shared/quote.ts'
import type { CallOptions } from '../../spec/index.ts'
import { fromBase64, toBase64 } from './base64.ts'
import { translated } from './errors.ts'
import { agentSource } from './guest/index.ts'
import type { TimeLimits } from './options.ts'
import { again } from './retry.ts'
import type { DaytonaSandboxObject } from './sdk.ts'
import { isTransitional } from './translation.ts'

export interface IncarnationCall extends CallOptions {
  /** Data for the agent. It is passed in the environment, because all processes can read arguments. */
  input?: Uint8Array
  env?: Readonly<Record<string, string>>
}

/** The most bytes in one call: Linux limits the length of one string. */
export const mostInputBytes = 64 * 1024

/**
 * One start of a sandbox, and the agent in it. Every call carries the number of that start; the agent refuses any other.
 */
export class Incarnation {
  readonly sandbox: DaytonaSandboxObject
  /** How long the agent waits for new events before it returns an empty response. */
  readonly pollMs: number
  readonly #answerMs: number
  #incarnation = '-'
  #workdir = '/'
  #hasAgent = false

  constructor(sandbox: DaytonaSandboxObject, { requestMs }: TimeLimits) {
    this.sandbox = sandbox
    this.#answerMs = Math.min(requestMs, mostAnswerMs)
    this.pollMs = Math.min(mostPollMs, Math.ceil(requestMs / 2))
  }

  get id(): string {
    return this.sandbox.id
  }

  get workdir(): string {
    return this.#workdir
  }

  get bound(): boolean {
    return this.#incarnation !== '-'
  }

  /** Installs the agent in a running sandbox, and reads the number of its start. */
  async bind(call: CallOptions = {}): Promise<void> {
    const lines = await this.#run(
      ['hello', '-'],
      { ...call, env: { SANDKASTEN_AGENT: agentSource } },
      install,
    )
    const [, incarnation, workdir] = lines[0]!.split(' ')
    this.#incarnation = incarnation!
    this.#workdir = new TextDecoder().decode(fromBase64(workdir!))
  }

  /** Returns the agent's lines. Throws the agent's errors and the vendor's. */
  async ask(args: readonly string[], call: IncarnationCall = {}): Promise<string[]> {
    const [verb, ...rest] = args as [string, ...string[]]
    // This object was bound to a stopped sandbox, so it has no start.
    if (!this.bound) throw await this.#unusable(undefined)
    return this.#run([verb, this.#incarnation, ...rest], call, '')
  }

  /** Writes bytes to a file in the sandbox with the vendor's stream. The parent folder must exist. */
  async stream(chunks: AsyncIterable<Uint8Array>, path: string, call: CallOptions): Promise<void> {
    const { Readable } = await import('node:stream')
    const silence = this.silence(call)
    let sent = 0
    const counted = async function* () {
      for await (const chunk of silence.sending(chunks)) {
        sent += chunk.byteLength
        yield chunk
      }
    }
    try {
      const { signal } = silence
      await this.sandbox.fs.uploadFileStream(Readable.from(counted(), { objectMode: false }), path, {
        signal,
      })
    } catch (error) {
      throw silence.blamed(error)
    } finally {
      silence.rest()
    }
    // The vendor's SDK does not check the response, which may come from a proxy: count the bytes that arrived.
    const [facts] = await this.ask(['stat', path, '1'], call)
    const arrived = Number(facts!.split(' ')[1])
    if (arrived !== sent)
      throw new SandboxError('connection_lost', `${arrived} of ${sent} bytes were written.`, {
        provider: 'daytona',
        hint: 'Write it again.',
      })
  }

  /** An idle timeout for one of the vendor's streams. */
  silence({ signal }: CallOptions): Silence {
    return new Silence(this.#answerMs, 'daytona', signal)
  }

  /** The agent for programs; see `shared/guest`. The vendor returns text, so output is read in pages. */
  link(): GuestLink {
    const facts = { provider: 'daytona', sandboxId: this.id }
    return {
      ...facts,
      place: 'in the sandbox',
      id: this.id,
      start: this.#incarnation,
      page: { waitMs: this.pollMs, bytes: pageBytes },
      open: async (verb, words, call) =>
        new TextStream(await this.#program(verb, words, call), { ...facts, what: call.what }),
      ask: async (verb, words, call) => {
        const { text, code } = await this.#program(verb, words, call)
        if (code === 0) return text
        throw guestError(code, { ...facts, what: call.what })
      },
      upload: async (data, call) => {
        const name = `in-${randomId()}`
        try {
          await this.stream(chunksOf(data), `${guestFolder}/${name}`, call)
        } catch (error) {
          throw await this.#unusable(error)
        }
        return name
      },
      // A program in a paused sandbox has not ended.
      goesOn: async (error, _failures, signal) => {
        const state = SandboxError.is(error, 'not_running') ? error.details.state : undefined
        if (state !== 'paused' && state !== 'pausing' && state !== 'resuming') return false
        await abortable(new Promise((resolve) => setTimeout(resolve, pausedMs)), signal, 'Reading the output')
        return true
      },
    }
  }

  /** Repeating a call of the agent has no further effect, so that transient failures pass. */
  async #program(verb: string, words: readonly Word[], call: GuestCall): Promise<FramedResponse> {
    if (!this.bound) throw await this.#unusable(undefined)
    const lines = linesInEnv(call.input)
    for (let installing = !this.#hasAgent; ; installing = true) {
      const env = installing ? { ...lines, SANDKASTEN_AGENT: agentScript } : lines
      const response = await again(async () => {
        const nonce = randomId(33)
        const args = ['-c', framedLine, agentName, nonce, verb, ...words.map(String)]
        const answer = await this.#execute(`exec sh ${quoteArgs(args)}`, env, call)
        return framed(String(answer.result), nonce) ?? Promise.reject(this.#odd(answer))
      }, call.signal)
      if (response.code === agentMissing && !installing) continue
      this.#hasAgent = true
      return response
    }
  }

  async #run(args: readonly string[], call: IncarnationCall, before: string): Promise<string[]> {
    const env = { ...call.env, ...(call.input ? { SANDKASTEN_INPUT: toBase64(call.input) } : {}) }
    const answer = await this.#execute(`${before}exec perl ${quoteArgs([agentFile, ...args])}`, env, call)
    const lines = linesOf(answer.result)
    if (!lines) throw this.#odd(answer)
    const [, code, text = ''] = /^! (\S+) ?(\S*)$/.exec(lines[0] ?? '') ?? []
    if (code === undefined) return lines
    throw this.#refused(code, new TextDecoder().decode(fromBase64(text)))
  }

  async #execute(
    command: string,
    env: Record<string, string>,
    { signal, waitMs = 0 }: Pick<GuestCall, 'signal' | 'waitMs'>,
  ): Promise<{ exitCode: number; result: string }> {
    throwIfAborted(signal)
    const seconds = Math.ceil((waitMs + this.#answerMs) / 1000)
    try {
      // The call cannot be cancelled; it is harmless if it still runs.
      return await abortable(this.sandbox.process.executeCommand(command, undefined, env, seconds), signal)
    } catch (error) {
      throw await this.#unusable(error)
    }
  }

  /** Why a call failed: often the sandbox is gone or not running. */
  async #unusable(error: unknown): Promise<SandboxError> {
    if (SandboxError.is(error, 'aborted')) return error
    const failure = error === undefined ? undefined : translated(error, 'A command in the sandbox', this.id)
    if (failure && alone.has(failure.code)) return failure
    try {
      await this.sandbox.refreshData()
    } catch (cause) {
      const look = translated(cause, 'Reading the state of the sandbox', this.id)
      return look.code === 'not_found' ? gone(this.id, cause) : (failure ?? look)
    }
    const { state = 'unknown' } = this.sandbox
    if (state === 'destroyed' || state === 'destroying') return gone(this.id, error)
    if (state === 'started' && failure) return failure
    if (state === 'started' && error === undefined) return this.#refused('interrupted', '')
    return new SandboxError('not_running', `The sandbox ${this.id} is ${state}.`, {
      provider: 'daytona',
      sandboxId: this.id,
      cause: error,
      details: { state, waiting: isTransitional(state) },
    })
  }

  #refused(code: string, text: string): SandboxError {
    const facts = { provider: 'daytona', sandboxId: this.id }
    if (code === 'interrupted')
      return new SandboxError('interrupted', `The sandbox ${this.id} was restarted.`, facts)
    const errno = Number(/^E(\d+)$/.exec(code)?.[1])
    const known = fileErrors[errno] ?? 'provider_error'
    return new SandboxError(known, `${text}: ${words[known] ?? `error ${code}`}.`, {
      ...facts,
      details: { errno },
    })
  }

  /** The response is not the agent's: the agent is missing, or a proxy responded. */
  #odd({ exitCode, result }: { exitCode?: number; result?: string }): SandboxError {
    const facts = { provider: 'daytona', sandboxId: this.id, details: { exitCode } }
    if (exitCode === 127)
      return new SandboxError('unsupported', 'The sandbox’s image has no perl, which this provider needs.', {
        ...facts,
        hint: 'Use an image with perl (Debian and Ubuntu have it), or install it in yours.',
      })
    const said = String(result ?? '').slice(0, 200)
    return new SandboxError('provider_error', 'Daytona returned an unexpected response.', {
      ...facts,
      details: { exitCode, garbled: true },
      cause: new Error(said === '' ? 'an empty response' : said),
    })
  }
}

const mostAnswerMs = 30_000
const mostPollMs = 20_000
const pausedMs = 250
const pageBytes = 1024 * 1024
const agentFile = `${guestFolder}/agent.pl`
/** The folder must belong to this account: another account could have created it as a trap. */
const install = `(umask 077; mkdir -p ${guestFolder}; [ -O ${guestFolder} ] && printf %s "$SANDKASTEN_AGENT" >${agentFile}.$$ && mv ${agentFile}.$$ ${agentFile}) || exit 98; `

/** Failures that do not depend on the sandbox's state. */
const alone = new Set<SandboxErrorCode>(['unauthenticated', 'rate_limited', 'aborted'])

export function gone(sandboxId: string, cause?: unknown): SandboxError {
  return new SandboxError('not_found', `The sandbox ${sandboxId} does not exist.`, {
    provider: 'daytona',
    sandboxId,
    cause,
  })
}

/** The lines between the agent's name and its dot; undefined if the response is incomplete. */
function linesOf(text: unknown): string[] | undefined {
  if (typeof text !== 'string') return undefined
  const lines = text.split('\n')
  const first = lines.indexOf('sandkasten 1')
  const last = lines.lastIndexOf('.')
  return first === -1 || last <= first ? undefined : lines.slice(first + 1, last)
}

const fileErrors: Readonly<Record<number, SandboxErrorCode>> = {
  1: 'permission_denied',
  2: 'file_not_found',
  11: 'unavailable',
  12: 'unavailable',
  13: 'permission_denied',
  17: 'file_exists',
  20: 'not_a_directory',
  21: 'is_a_directory',
  22: 'invalid_argument',
  24: 'unavailable',
  28: 'disk_full',
  30: 'permission_denied',
  36: 'invalid_argument',
  39: 'directory_not_empty',
  40: 'invalid_argument',
  122: 'disk_full',
}

const words: Partial<Record<SandboxErrorCode, string>> = {
  file_not_found: 'the file does not exist',
  file_exists: 'it exists already',
  not_a_directory: 'part of the path is not a folder',
  is_a_directory: 'it is a folder',
  directory_not_empty: 'it is not empty',
  permission_denied: 'not allowed',
  disk_full: 'the disk is full',
  invalid_argument: 'the system refuses it',
  unavailable: 'the sandbox lacks resources for it',
}
