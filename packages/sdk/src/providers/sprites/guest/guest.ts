import { SandboxError, type SandboxErrorCode } from '../../../errors.ts'
import { abortedError } from '../../../shared/calls/abort.ts'
import { guestError } from '../../../shared/guest/errors.ts'
import { type FramedResponse, TextStream } from '../../../shared/guest/framed.ts'
import { linesInEnv } from '../../../shared/guest/lines.ts'
import type { GuestCall, GuestLink, Word } from '../../../shared/guest/link.ts'
import { agentMissing, agentName, agentScript, guestFolder, plainLine } from '../../../shared/guest/place.ts'
import { refused } from '../../../shared/guest/script.ts'
import { randomId } from '../../../shared/ids.ts'
import { concat } from '../../../shared/output/bytes.ts'
import type { Account } from '../account.ts'
import { connectionLost, notOpened, translated } from '../errors.ts'
import { partsOf } from '../translation.ts'
import { type BootInput, boot, bootLines, unmarked } from './boot.ts'
import { ExecFailure, type ExecResult, exec } from './exec.ts'

export interface GuestRun {
  readonly signal?: AbortSignal | undefined
  /** Bytes for the script's stdin. */
  readonly data?: Uint8Array
  /** How long the script itself may wait. */
  readonly waitMs?: number | undefined
}

/** Runs our scripts in one sprite, and explains failed calls. */
export class Guest {
  readonly sandboxId: string
  readonly #account: Account
  readonly #name: string
  readonly #id: string
  /** The id was checked just now, so the mark can be set. */
  #checked: boolean
  #hasAgent = false

  constructor(account: Account, sandboxId: string) {
    this.#account = account
    this.sandboxId = sandboxId
    const { name, id } = partsOf(sandboxId)
    this.#name = name
    this.#id = id!
    this.#checked = true
  }

  /** Throws `not_found` if the sprite is gone, or another one has its name. */
  async check(signal?: AbortSignal): Promise<void> {
    await this.#account.existing(this.sandboxId, signal)
  }

  /** The agent in this sprite; see `shared/guest`. A page ends before the SDK gives up a silent connection, after 45 s. */
  link(): GuestLink {
    const { sandboxId } = this
    const facts = { provider: 'sprites', sandboxId }
    return {
      ...facts,
      place: 'in the sandbox',
      id: this.#id,
      start: '-',
      page: { waitMs: pageMs, bytes: 1024 * 1024 },
      open: async (verb, words, call) =>
        new TextStream(await this.#call(verb, words, call), { ...facts, what: call.what }),
      ask: async (verb, words, call) => {
        const { text, code } = await this.#call(verb, words, call)
        if (code === 0) return text
        throw guestError(code, { ...facts, what: call.what })
      },
      upload: async (data, { signal }) => {
        const name = `in-${randomId()}`
        await this.send(`${guestFolder}/${name}`, data, name, signal)
        return name
      },
      // A page can be asked for again.
      goesOn: async (error, failures) => failures <= patience && SandboxError.is(error, ...passing),
    }
  }

  /** Creates a file with these bytes. */
  async send(file: string, data: Uint8Array, path: string, signal?: AbortSignal): Promise<void> {
    const size = String(data.byteLength)
    const { exitCode } = await this.run({ script: receive, args: [file, size] }, { data, signal })
    if (exitCode !== 0) throw guestError(82, { provider: 'sprites', sandboxId: this.sandboxId, what: path })
  }

  /** Returns the script's output, or throws the error that it names. */
  async tell(script: string, args: readonly string[], path: string, signal?: AbortSignal): Promise<string> {
    return new TextDecoder().decode(await this.bytes(script, args, path, signal))
  }

  async bytes(
    script: string,
    args: readonly string[],
    path: string,
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    const { exitCode, stdout } = await this.run({ script, args }, { signal })
    if (exitCode === 0) return stdout
    const { sandboxId } = this
    if (exitCode === refused) {
      const code = new TextDecoder().decode(stdout.subarray(0, 100))
      const message = messages[code]
      if (message !== undefined)
        throw new SandboxError(code as SandboxErrorCode, `${message}: ${path}`, {
          provider: 'sprites',
          sandboxId,
        })
    }
    throw new SandboxError('provider_error', `A script in the sandbox ended with ${exitCode}: ${path}`, {
      provider: 'sprites',
      sandboxId,
      hint: 'The sprite needs sh, GNU coreutils, findutils and grep; its disk may be full.',
    })
  }

  /** Runs a script once, unless this name belongs to another sprite now. */
  async run(input: BootInput, { signal, data, waitMs = 0 }: GuestRun = {}): Promise<ExecResult> {
    const lines = bootLines(input)
    const openMs = this.#account.access.requestTimeoutMs
    const client = await this.#account.client()
    for (let marking = this.#checked; ; marking = true) {
      const nonce = randomId(33)
      const args = ['-c', boot, agentName, this.#id, marking ? 'mark' : '-', nonce]
      const whole = data ? concat([lines, data]) : lines
      const result = await exec(client.sprite(this.#name), {
        args,
        input: whole,
        openMs,
        silenceMs: openMs + waitMs,
        signal,
      }).catch(async (error: unknown) => {
        throw signal?.aborted ? abortedError(signal) : await this.#explained(error)
      })
      if (result.exitCode !== unmarked || marking) {
        this.#checked = false
        return { ...result, stdout: this.#content(result, nonce) }
      }
      await this.check(signal)
    }
  }

  /** The response without its first line. A script that did not begin has none. */
  #content({ stdout, exitCode }: ExecResult, nonce: string): Uint8Array {
    const text = Buffer.from(stdout.buffer, stdout.byteOffset, stdout.byteLength)
    const line = `${nonce}\n`
    if (text.indexOf(line) === 0 && text.indexOf(line, line.length) === -1)
      return stdout.subarray(line.length)
    if (exitCode > 0 && stdout.byteLength === 0) return stdout
    throw new SandboxError('provider_error', 'The response of a command has an invalid form.', {
      provider: 'sprites',
      sandboxId: this.sandboxId,
    })
  }

  /** Passes the agent's text to the first call, and to one that does not find it. */
  async #call(
    verb: string,
    words: readonly Word[],
    { input, signal, waitMs }: GuestCall,
  ): Promise<FramedResponse> {
    const args = ['-', verb, ...words.map(String)]
    const variables = linesInEnv(input)
    for (let installing = !this.#hasAgent; ; installing = true) {
      const agent = installing ? agentScript : undefined
      const { stdout, exitCode } = await this.run(
        { script: plainLine, args, agent, variables },
        { signal, waitMs },
      )
      if (exitCode === agentMissing && !installing) continue
      if (exitCode !== incomplete) this.#hasAgent = true
      return { text: new TextDecoder().decode(stdout), code: exitCode }
    }
  }

  /**
   * The SDK reports the loss of a WebSocket without a reason. Another request tells whether the sprite exists, and whether the
   * account may use it.
   */
  async #explained(error: unknown): Promise<SandboxError> {
    const { sandboxId } = this
    const { access } = this.#account
    if (SandboxError.is(error)) return error
    const opened = error instanceof ExecFailure && error.opened
    const cause = error instanceof ExecFailure ? error.cause : error
    try {
      await this.check()
      if (opened) return connectionLost(sandboxId, cause)
      const sprite = (await this.#account.client()).sprite(this.#name)
      await sprite.execFileHTTP('true', [], { timeout: access.requestTimeoutMs })
    } catch (found) {
      const why = translated(found, { sandboxId, token: access.token })
      if (SandboxError.is(why, ...reasons)) return why
    }
    return opened ? connectionLost(sandboxId, cause) : notOpened(sandboxId, cause)
  }
}

const reasons = ['not_found', 'unauthenticated', 'forbidden', 'rate_limited', 'quota_exceeded'] as const
/** How often a page may break off in a row. */
const patience = 3
const passing = ['connection_lost', 'unavailable', 'timeout', 'provider_error'] as const
const pageMs = 20_000
/** The exit code of `boot` if its input is incomplete. */
const incomplete = 97

/** FILE SIZE: writes stdin to the file, and refuses another size. */
const receive = 'umask 077; cat >"$1" && [ "$(wc -c <"$1")" -eq "$2" ] || { rm -f "$1"; exit 1; }'

const messages: Readonly<Record<string, string>> = {
  file_not_found: 'The file or folder does not exist',
  not_a_directory: 'Part of the path is not a folder',
  is_a_directory: 'The path is a folder',
  permission_denied: 'Permission denied',
  file_exists: 'The path exists already',
  directory_not_empty: 'The folder is not empty',
  invalid_argument: 'The file has the wrong type',
}
