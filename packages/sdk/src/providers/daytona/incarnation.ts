import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { abortable, throwIfAborted } from '../../shared/abort.ts'
import { chunksOf, encode } from '../../shared/bytes.ts'
import { randomId } from '../../shared/ids.ts'
import { quoteArgs } from '../../shared/quote.ts'
import { Silence } from '../../shared/silence-timeout.ts'
import type { CallOptions } from '../../spec/index.ts'
import { fromBase64, toBase64 } from './base64.ts'
import { translated } from './errors.ts'
import { agentFolder, agentSource } from './guest/index.ts'
import type { TimeLimits } from './options.ts'
import type { DaytonaSandboxObject } from './sdk.ts'
import { isTransitional } from './translation.ts'

export interface IncarnationCall extends CallOptions {
  /** Data for the agent. In the environment, not among its arguments: those are everybody's to read. */
  input?: Uint8Array
  env?: Readonly<Record<string, string>>
  /** How long the agent itself may wait. */
  waitMs?: number
}

/** The most that travels with one call: Linux takes no longer string. */
export const mostInputBytes = 64 * 1024

/**
 * One start of a sandbox, and the agent in it. Whatever is asked carries the number of that start; the agent refuses when it is another one.
 */
export class Incarnation {
  readonly sandbox: DaytonaSandboxObject
  /** How long an answer may be waited for inside the sandbox, before it is asked again. */
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

  /** Whether there is a start of it that is meant. */
  get bound(): boolean {
    return this.#incarnation !== '-'
  }

  /** Puts the agent into a sandbox that runs, and learns which start of it this is. */
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

  /** The agent's lines. Throws what it refused, and what the vendor did. */
  async ask(args: readonly string[], call: IncarnationCall = {}): Promise<string[]> {
    const [verb, ...rest] = args as [string, ...string[]]
    // Bound to a sandbox that did not run: there is no start of it that could be meant.
    if (!this.bound) throw await this.#unusable(undefined)
    return this.#run([verb, this.#incarnation, ...rest], call, '')
  }

  /** Bytes into a file of the sandbox, by the vendor's own stream. Parents must be there. */
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
    // The vendor's SDK does not check the response, which may come from a proxy: only what arrived counts.
    const [facts] = await this.ask(['stat', path, '1'], call)
    const arrived = Number(facts!.split(' ')[1])
    if (arrived !== sent)
      throw new SandboxError('connection_lost', `${arrived} of ${sent} bytes have arrived.`, {
        provider: 'daytona',
        hint: 'Write it again.',
      })
  }

  /** For one of the vendor's streams. */
  silence({ signal }: CallOptions): Silence {
    return new Silence(this.#answerMs, 'daytona', signal)
  }

  /** Bytes that are too many for a call, as a file that the agent takes away. Its path, as the agent takes it. */
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
      // The call cannot be cancelled; its effect is harmless.
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

  /** Why a call failed: often the sandbox is not there any more, or does not run. */
  async #unusable(error: unknown): Promise<SandboxError> {
    if (SandboxError.is(error, 'aborted')) return error
    const failure = error === undefined ? undefined : translated(error, 'A command in the sandbox', this.id)
    if (failure && alone.has(failure.code)) return failure
    try {
      await this.sandbox.refreshData()
    } catch (cause) {
      const look = translated(cause, 'Looking at the sandbox', this.id)
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
      return new SandboxError('interrupted', `The sandbox ${this.id} was started anew since.`, facts)
    if (code === 'process') return noProcess(text, this.id)
    if (code === 'lost')
      return new SandboxError('interrupted', `What became of the process ${text} is not known.`, facts)
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

  /** The response is not the agent's: the agent is missing, or a proxy has responded. */
  #odd({ exitCode, result }: { exitCode?: number; result?: string }): SandboxError {
    const facts = { provider: 'daytona', sandboxId: this.id, details: { exitCode } }
    if (exitCode === 127)
      return new SandboxError(
        'unsupported',
        'The sandbox’s image has no perl, which this provider works with.',
        {
          ...facts,
          hint: 'Use an image with perl (Debian and Ubuntu have it), or install it in yours.',
        },
      )
    const said = String(result ?? '').slice(0, 200)
    return new SandboxError('provider_error', 'Daytona answered with something unexpected.', {
      ...facts,
      details: { exitCode, garbled: true },
      cause: new Error(said === '' ? 'an empty answer' : said),
    })
  }
}

const mostAnswerMs = 30_000
const mostPollMs = 20_000
const agentFile = `${agentFolder}/agent.pl`
/** The folder must be ours: another account could have prepared it as a trap. */
const install = `(umask 077; mkdir -p ${agentFolder}; [ -O ${agentFolder} ] && printf %s "$SANDKASTEN_AGENT" >${agentFile}.$$ && mv ${agentFile}.$$ ${agentFile}) || exit 98; `

/** Failures that say nothing about the sandbox. */
const alone = new Set<SandboxErrorCode>(['unauthenticated', 'rate_limited', 'aborted'])

export function gone(sandboxId: string, cause?: unknown): SandboxError {
  return new SandboxError('not_found', `There is no sandbox ${sandboxId}.`, {
    provider: 'daytona',
    sandboxId,
    cause,
  })
}

export function noProcess(execId: string, sandboxId: string): SandboxError {
  return new SandboxError('not_found', `There is no process ${execId} in this sandbox.`, {
    provider: 'daytona',
    sandboxId,
    hint: 'See listProcesses().',
  })
}

/** The lines between the agent's name and its dot; undefined when it is not whole. */
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
  cwd_not_found: 'there is no such folder',
  command_not_found: 'there is no such program',
  file_not_found: 'there is no such file',
  file_exists: 'it is there already',
  not_a_directory: 'part of the path is not a folder',
  is_a_directory: 'it is a folder',
  directory_not_empty: 'there is something in it',
  permission_denied: 'not allowed',
  disk_full: 'the disk is full',
  invalid_argument: 'the system does not take it',
  unavailable: 'the sandbox has no room for it now',
}
