import { SandboxError, type SandboxErrorCode } from '../../../errors.ts'
import { abortable } from '../../../shared/calls/abort.ts'
import { linesInEnv } from '../../../shared/guest/lines.ts'
import type { GuestCall, GuestLink, Word } from '../../../shared/guest/link.ts'
import { agentMissing, agentName, agentScript, plainLine } from '../../../shared/guest/place.ts'
import { refused } from '../../../shared/guest/script.ts'
import { randomId } from '../../../shared/ids.ts'
import { concat } from '../../../shared/output/bytes.ts'
import { translated } from '../errors.ts'
import type { Incarnation } from '../incarnation.ts'
import type { ProcessRpc, VendorInfo, VendorSandbox } from '../sdk.ts'
import { GuestCommand } from './stream.ts'

/** Runs our scripts in a running sandbox, and explains failed calls. */
export class Guest {
  readonly incarnation: Incarnation
  readonly answerMs: number
  readonly #look: () => Promise<VendorInfo>

  constructor(incarnation: Incarnation, answerMs: number, look: () => Promise<VendorInfo>) {
    this.incarnation = incarnation
    this.answerMs = answerMs
    this.#look = look
  }

  get rpc(): ProcessRpc {
    const { rpc } = this.incarnation.sandbox.commands as unknown as { rpc?: Partial<ProcessRpc> }
    if (typeof rpc?.start === 'function' && typeof rpc.connect === 'function') return rpc as ProcessRpc
    throw new SandboxError('sdk_missing', 'This version of the e2b SDK does not expose its process client.', {
      provider: 'e2b',
      hint: 'Install the tested version: npm install e2b@2.51.0',
    })
  }

  /** Called before a change that must not affect a later start of this sandbox. */
  check(): Promise<void> {
    return this.incarnation.check(this.#look)
  }

  async do<T>(work: (sandbox: VendorSandbox) => Promise<T>, signal?: AbortSignal): Promise<T> {
    try {
      return await work(this.incarnation.sandbox)
    } catch (error) {
      throw await this.explain(error, signal)
    }
  }

  /** A call to the control plane. It takes headers, so it carries a request id. */
  async manage<T>(
    work: (
      sandbox: VendorSandbox,
      options: { headers: Record<string, string>; signal?: AbortSignal },
    ) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const requestId = randomId()
    try {
      return await work(this.incarnation.sandbox, { headers: { 'X-Request-Id': requestId }, signal })
    } catch (error) {
      throw await this.explain(error, signal, requestId)
    }
  }

  /** A sandbox that is gone, paused or restarted looks unreachable: find out which. */
  async explain(error: unknown, signal?: AbortSignal, requestId?: string): Promise<SandboxError> {
    const { sandboxId } = this.incarnation
    const known = translated(error, { sandboxId, signal, requestId })
    if (!SandboxError.is(known, 'unavailable', 'not_found', 'timeout', 'connection_lost', 'unauthenticated'))
      return known
    try {
      await this.incarnation.check(this.#look, { now: true })
    } catch (found) {
      const why = translated(found, { sandboxId })
      if (SandboxError.is(why, 'not_found', 'not_running', 'interrupted')) return why
    }
    // The sandbox runs, so something inside it is missing.
    return known
  }

  /** The agent in this sandbox; see `shared/guest`. */
  link(): GuestLink {
    const { incarnation } = this
    const { sandboxId } = incarnation
    return {
      provider: 'e2b',
      sandboxId,
      place: 'in the sandbox',
      id: sandboxId,
      start: incarnation.start,
      lingers: true,
      open: (verb, words, call) => this.#open(verb, words, call),
      ask: async (verb, words, call) => {
        const command = await this.#open(verb, words, call)
        const answer = await command.rest()
        if (command.exitCode === 0) return new TextDecoder().decode(answer)
        throw await command.problem()
      },
      // The stream of a program breaks with a pause, and goes on after the resume.
      goesOn: async (_error, _failures, signal) => {
        if (!incarnation.paused) return false
        await abortable(incarnation.resumed(), signal, 'Reading the output')
        return !incarnation.over
      },
    }
  }

  async ask(
    script: string,
    args: readonly string[],
    signal?: AbortSignal,
  ): Promise<{ exitCode: number; stdout: string }> {
    const envs = { LC_ALL: 'C' }
    const command = await GuestCommand.start(
      this,
      { args: ['-c', script, 'sandkasten', ...args], envs },
      { signal },
    )
    const stdout = await command.rest()
    if (command.exitCode === undefined) throw await command.problem()
    return { exitCode: command.exitCode, stdout: concat([stdout]).toString('utf8') }
  }

  /** Passes the agent's text to the first call, and to one that does not find it. */
  async #open(verb: string, words: readonly Word[], call: GuestCall): Promise<GuestCommand> {
    const { incarnation } = this
    const args = ['-c', plainLine, agentName, '-', verb, ...words.map(String)]
    for (let installing = !incarnation.hasAgent; ; installing = true) {
      const envs = linesInEnv(call.input)
      if (installing) envs.SANDKASTEN_AGENT = agentScript
      const command = await GuestCommand.start(this, { args, envs }, call)
      if (command.exitCode === agentMissing && !installing) continue
      incarnation.hasAgent = true
      return command
    }
  }

  /** Returns the script's output, or throws the error that it names. */
  async tell(script: string, args: readonly string[], path: string, signal?: AbortSignal): Promise<string> {
    const { exitCode, stdout } = await this.ask(script, args, signal)
    if (exitCode === 0) return stdout
    const { sandboxId } = this.incarnation
    if (exitCode === refused)
      throw new SandboxError(
        stdout as SandboxErrorCode,
        `${messages[stdout] ?? 'The operation failed'}: ${path}`,
        {
          provider: 'e2b',
          sandboxId,
        },
      )
    throw new SandboxError('provider_error', `A script in the sandbox ended with ${exitCode}: ${path}`, {
      provider: 'e2b',
      sandboxId,
    })
  }
}

const messages: Readonly<Record<string, string>> = {
  file_not_found: 'The file does not exist',
  file_exists: 'The path exists already',
  not_a_directory: 'Part of the path is not a folder',
  is_a_directory: 'The path is a folder',
  directory_not_empty: 'The folder is not empty',
  permission_denied: 'Permission denied',
  invalid_argument: 'The file has the wrong type',
}
