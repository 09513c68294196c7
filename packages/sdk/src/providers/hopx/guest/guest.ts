import { SandboxError, type SandboxErrorCode } from '../../../errors.ts'
import { abortable } from '../../../shared/calls/abort.ts'
import { guestError } from '../../../shared/guest/errors.ts'
import { type FramedResponse, framed, TextStream } from '../../../shared/guest/framed.ts'
import { linesInEnv } from '../../../shared/guest/lines.ts'
import type { GuestCall, GuestLink, Word } from '../../../shared/guest/link.ts'
import { agentMissing, agentName, agentScript, framedLine, guestFolder } from '../../../shared/guest/place.ts'
import { refused } from '../../../shared/guest/script.ts'
import { randomId } from '../../../shared/ids.ts'
import { quoteArgs } from '../../../shared/quote.ts'
import type { CallOptions } from '../../../spec/index.ts'
import type { Account, Token } from '../account.ts'
import { garbled } from '../errors.ts'
import type { HopxClient } from '../sdk.ts'
import { markVariable, notRunning, statusOf, type VendorSandbox } from '../translation.ts'
import type { Method, TransportCall } from '../transport.ts'
import { hello, join } from './scripts.ts'

type Env = Readonly<Record<string, string>>

/** The vendor's agent in a running sandbox, and our scripts that it runs. */
export class Guest {
  readonly sandboxId: string
  readonly #account: Account
  readonly #host: string | undefined
  readonly #pollMs: number
  #token: Token | undefined
  #client: Promise<HopxClient> | undefined
  #workdir: string | undefined
  #hasAgent = false

  constructor(account: Account, vendor: VendorSandbox & { token?: Token }) {
    this.sandboxId = vendor.id
    this.#account = account
    this.#host = vendor.host
    this.#token = vendor.token
    this.#pollMs = Math.min(mostPollMs, Math.ceil(account.access.requestTimeoutMs / 2))
  }

  /** `/` until it is bound. */
  get workdir(): string {
    return this.#workdir ?? '/'
  }

  get bound(): boolean {
    return this.#workdir !== undefined
  }

  /** Checks that commands run, and reads the working directory. */
  async bind(call: CallOptions): Promise<void> {
    const what = 'The first command in the sandbox'
    const { text, code } = await this.#framed(`sh -c ${quoteArgs([hello])}`, {}, { what, ...call })
    if (code !== 0) throw guestError(code, { provider: 'hopx', sandboxId: this.sandboxId, what })
    this.#workdir = unpacked(text)
  }

  /** The variables that the vendor sets for every command. */
  async env({ signal }: CallOptions): Promise<Readonly<Record<string, unknown>>> {
    const what = 'Reading the variables of the sandbox'
    const { env_vars: all } = await this.#request('get', '/env', { what, signal })
    if (typeof all === 'object' && all !== null) return all as Record<string, unknown>
    throw garbled({ what, sandboxId: this.sandboxId })
  }

  async setEnv(all: Env, { signal }: CallOptions): Promise<void> {
    const body = { env_vars: all, merge: true }
    await this.#request('patch', '/env', { what: 'Setting the variables of the sandbox', body, signal })
  }

  /** The agent for programs; see `shared/guest`. The vendor returns text, so output is read in pages. */
  link(): GuestLink {
    const facts = { provider: 'hopx', sandboxId: this.sandboxId }
    return {
      ...facts,
      place: 'in the sandbox',
      id: this.sandboxId,
      start: '-',
      page: { waitMs: this.#pollMs, bytes: pageBytes },
      open: async (verb, words, call) =>
        new TextStream(await this.#program(verb, words, call), { ...facts, what: call.what }),
      ask: async (verb, words, call) => {
        const { text, code } = await this.#program(verb, words, call)
        if (code === 0) return text
        throw guestError(code, { ...facts, what: call.what })
      },
      upload: async (data, call) => {
        const names: string[] = []
        for (let at = 0; at === 0 || at < data.byteLength; at += partBytes)
          names.push(await this.upload(data.subarray(at, at + partBytes), call))
        const name = `in-${randomId()}`
        await this.tell(join, [name, String(data.byteLength), ...names], 'the program’s input', call)
        return name
      },
      // A page can be read again. A program in a paused sandbox has not ended.
      goesOn: async (error, failures, signal) => {
        if (!SandboxError.is(error, 'not_running') || error.details.state !== 'paused')
          return failures <= patience && SandboxError.is(error, ...passing)
        const pause = new Promise((resolve) => setTimeout(resolve, pausedMs))
        await abortable(pause, signal, 'Reading the output')
        return true
      },
    }
  }

  /** Writes a file into the agent's folder, and returns its name. The caller checks its size. */
  async upload(data: Uint8Array, { signal }: CallOptions): Promise<string> {
    const name = `in-${randomId()}`
    const content = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64')
    const path = `${guestFolder}/${name}`
    const body = { path, content, encoding: 'base64', overwrite: true, mode: '0600' }
    await this.#explained(this.#request('post', '/files/write', { what: 'Writing a file', body, signal }))
    return name
  }

  /** Returns the script's output, or throws the error that it names. */
  async tell(
    script: string,
    args: readonly string[],
    path: string,
    { env = {}, signal }: CallOptions & { env?: Env } = {},
  ): Promise<string> {
    const line = `sh -c ${quoteArgs([script, 'sandkasten', ...args])}`
    const { text, code } = await this.#explained(this.#framed(line, env, { what: path, signal }))
    if (code === 0) return text
    const facts = { provider: 'hopx', sandboxId: this.sandboxId }
    if (code === refused && Object.hasOwn(messages, text))
      throw new SandboxError(text as SandboxErrorCode, `${messages[text]}: ${path}`, facts)
    throw new SandboxError('provider_error', `A script in the sandbox ended with ${code}: ${path}`, {
      ...facts,
      hint: 'The template needs sh, GNU coreutils, findutils and grep; its disk may be full.',
    })
  }

  /** Passes the agent's text to the first call, and to one that does not find it. */
  async #program(verb: string, words: readonly Word[], call: GuestCall): Promise<FramedResponse> {
    const lines = linesInEnv(call.input)
    for (let installing = !this.#hasAgent; ; installing = true) {
      const env = installing ? { ...lines, SANDKASTEN_AGENT: agentScript } : lines
      const nonce = randomId(33)
      const args = ['-c', framedLine, agentName, nonce, verb, ...words.map(String)]
      const { what = 'A program', signal, waitMs } = call
      const running = this.#run(`exec sh ${quoteArgs(args)}`, nonce, env, { what, signal, waitMs })
      const response = await this.#explained(running)
      if (response.code === agentMissing && !installing) continue
      this.#hasAgent = true
      return response
    }
  }

  /** Frames the output of a shell line, so that a response that is cut off is detected. */
  #framed(line: string, env: Env, call: TransportCall): Promise<FramedResponse> {
    const nonce = randomId(33)
    const whole = `echo ${nonce}; ${line} 2>/dev/null; printf '\\n%s %s\\n' ${nonce} "$?"`
    return this.#run(whole, nonce, env, call)
  }

  async #run(line: string, nonce: string, env: Env, call: TransportCall): Promise<FramedResponse> {
    const body = {
      command: 'bash',
      args: ['-c', `unset ${markVariable}; ${line}`],
      timeout: Math.ceil((this.#account.access.requestTimeoutMs + (call.waitMs ?? 0)) / 1000),
      workdir: '/',
      env,
    }
    const { stdout } = await this.#request('post', '/commands/run', { ...call, body })
    const response = typeof stdout === 'string' ? framed(stdout, nonce) : undefined
    if (response) return response
    throw garbled({ what: call.what, sandboxId: this.sandboxId })
  }

  /** The vendor refuses an expired token before it does anything, so the request can be sent again with a new one. */
  async #request(method: Method, path: string, call: TransportCall) {
    const { sandboxId } = this
    for (let renewed = false; ; renewed = true) {
      if (renewed || !this.#token || this.#token.expiresAt - Date.now() < soonMs) {
        this.#token = await this.#account.token(sandboxId, call)
        this.#client = undefined
      }
      this.#client ??= this.#account.transport.client({
        baseURL: this.#address(),
        jwtToken: this.#token.value,
      })
      const client = await this.#client
      try {
        return await this.#account.transport.json(client, method, path, {
          ...call,
          sandboxId,
          secret: this.#token.value,
        })
      } catch (error) {
        if (renewed || !SandboxError.is(error, 'unauthenticated')) throw error
      }
    }
  }

  /** The token must not travel without TLS, unless the API does too. */
  #address(): string {
    const host = this.#host ?? ''
    const secure = this.#account.access.apiUrl.startsWith('https:')
    if (URL.canParse(host) && (secure ? /^https:/ : /^https?:/).test(host)) return host.replace(/\/+$/, '')
    throw new SandboxError('provider_error', 'Hopx did not return a usable address of the sandbox.', {
      provider: 'hopx',
      sandboxId: this.sandboxId,
    })
  }

  async #explained<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      throw await this.#explain(error)
    }
  }

  /** A sandbox that is paused, expired or gone looks unreachable: the control plane knows which. */
  async #explain(error: unknown): Promise<unknown> {
    if (!SandboxError.is(error, ...unclear)) return error
    try {
      const vendor = await this.#account.info(this.sandboxId, {})
      return statusOf(vendor) === 'running' ? error : notRunning(this.sandboxId, vendor.status, error)
    } catch (look) {
      return SandboxError.is(look, 'not_found') ? look : error
    }
  }
}

export function unpacked(base64: string): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytesOf(base64)).replace(/\n$/, '')
}

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(base64, 'base64'))
}

const mostPollMs = 20_000
const pausedMs = 250
const pageBytes = 1024 * 1024
/** The vendor buffers a request completely, so long data travels in parts. */
export const partBytes = 4 * 1024 * 1024
/** A token that expires sooner is renewed before the request. */
const soonMs = 60_000
/** How often reading a page may fail in a row. */
const patience = 3
const passing = ['connection_lost', 'unavailable', 'timeout', 'provider_error'] as const
/** Failures that another state of the sandbox can explain. */
const unclear = [...passing, 'not_found', 'not_running', 'conflict', 'forbidden', 'invalid_argument'] as const

const messages: Readonly<Record<string, string>> = {
  file_not_found: 'The file or folder does not exist',
  not_a_directory: 'Part of the path is not a folder',
  is_a_directory: 'The path is a folder',
  permission_denied: 'Permission denied',
  file_exists: 'The path exists already',
  directory_not_empty: 'The folder is not empty',
  invalid_argument: 'The path is not of the right type',
  connection_lost: 'The content was not uploaded completely',
}
