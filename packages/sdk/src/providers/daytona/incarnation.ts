import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { abortable, throwIfAborted } from '../../shared/calls/abort.ts'
import { Silence } from '../../shared/calls/silence-timeout.ts'
import { randomId } from '../../shared/ids.ts'
import { chunksOf, encode } from '../../shared/output/bytes.ts'
import { quoteArgs } from '../../shared/quote.ts'
import type { CallOptions } from '../../spec/index.ts'
import { fromBase64, toBase64 } from './base64.ts'
import { translated } from './errors.ts'
import { agentFolder, agentSource } from './guest/index.ts'
import type { TimeLimits } from './options.ts'
import type { DaytonaSandboxObject } from './sdk.ts'
import { isTransitional } from './translation.ts'

export interface IncarnationCall extends CallOptions {
  /** Data for the agent. It is passed in the environment, because all processes can read arguments. */
  input?: Uint8Array
  env?: Readonly<Record<string, string>>
  /** How long the agent itself may wait. */
  waitMs?: number
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

  /** Uploads data that is too large for a call. Returns the path of the file, which the agent removes. */
  async upload(data: Uint8Array, call: CallOptions): Promise<string> {
    const path = `${agentFolder}/in-${randomId()}`
    try {
      await this.stream(chunksOf(data), path, call)
    } catch (error) {
      throw await this.#unusable(error)
    }
    return toBase64(encode(path))
  }

  async #run(args: readonly string[], call: IncarnationCall, before: string): Promise<string[]> {
    const { signal, waitMs = 0, input } = call
    throwIfAborted(signal)
    const env = { ...call.env, ...(input ? { SANDKASTEN_INPUT: toBase64(input) } : {}) }
    const command = `${before}exec perl ${quoteArgs([agentFile, ...args])}`
    const seconds = Math.ceil((waitMs + this.#answerMs) / 1000)
    let answer: { exitCode: number; result: string }
    try {
      // The call cannot be cancelled; it is harmless if it still runs.
      answer = await abortable(this.sandbox.process.executeCommand(command, undefined, env, seconds), signal)
    } catch (error) {
      throw await this.#unusable(error)
    }
    const lines = linesOf(answer.result)
    if (!lines) throw this.#odd(answer)
    const [, code, text = ''] = /^! (\S+) ?(\S*)$/.exec(lines[0] ?? '') ?? []
    if (code === undefined) return lines
    throw this.#refused(code, new TextDecoder().decode(fromBase64(text)))
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
    if (code === 'process') return noProcess(text, this.id)
    if (code === 'lost')
      return new SandboxError('interrupted', `The exit of the process ${text} is unknown.`, facts)
    const [, kind, errno] = /^([ECX])(\d+)$/.exec(code) ?? []
    const table = { E: fileErrors, C: folderErrors, X: programErrors }[(kind ?? 'E') as 'E' | 'C' | 'X']
    const known = table[Number(errno)] ?? 'provider_error'
    const what = { E: text, C: `The working directory ${text}`, X: `The program ${text}` }[
      (kind ?? 'E') as 'E'
    ]
    return new SandboxError(known, `${what}: ${words[known] ?? `error ${code}`}.`, {
      ...facts,
      details: { errno: Number(errno) },
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
const agentFile = `${agentFolder}/agent.pl`
/** The folder must belong to this account: another account could have created it as a trap. */
const install = `(umask 077; mkdir -p ${agentFolder}; [ -O ${agentFolder} ] && printf %s "$SANDKASTEN_AGENT" >${agentFile}.$$ && mv ${agentFile}.$$ ${agentFile}) || exit 98; `

/** Failures that do not depend on the sandbox's state. */
const alone = new Set<SandboxErrorCode>(['unauthenticated', 'rate_limited', 'aborted'])

export function gone(sandboxId: string, cause?: unknown): SandboxError {
  return new SandboxError('not_found', `The sandbox ${sandboxId} does not exist.`, {
    provider: 'daytona',
    sandboxId,
    cause,
  })
}

export function noProcess(execId: string, sandboxId: string): SandboxError {
  return new SandboxError('not_found', `The process ${execId} does not exist in this sandbox.`, {
    provider: 'daytona',
    sandboxId,
    hint: 'See listProcesses().',
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

const folderErrors: Readonly<Record<number, SandboxErrorCode>> = {
  2: 'cwd_not_found',
  13: 'permission_denied',
  20: 'cwd_not_found',
  36: 'invalid_argument',
}

const programErrors: Readonly<Record<number, SandboxErrorCode>> = {
  2: 'command_not_found',
  7: 'invalid_argument',
  8: 'permission_denied',
  11: 'unavailable',
  12: 'unavailable',
  13: 'permission_denied',
  20: 'command_not_found',
  21: 'permission_denied',
  36: 'invalid_argument',
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
  cwd_not_found: 'the folder does not exist',
  command_not_found: 'the program does not exist',
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
