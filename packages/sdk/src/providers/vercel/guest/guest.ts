import { SandboxError, type SandboxErrorCode } from '../../../errors.ts'
import { abortable } from '../../../shared/calls/abort.ts'
import { guestError } from '../../../shared/guest/errors.ts'
import { type FramedResponse, framed, TextStream } from '../../../shared/guest/framed.ts'
import { linesInEnv } from '../../../shared/guest/lines.ts'
import type { GuestCall, GuestLink, Word } from '../../../shared/guest/link.ts'
import { agentMissing, agentName, agentScript, framedLine, guestFolder } from '../../../shared/guest/place.ts'
import { refused } from '../../../shared/guest/script.ts'
import { randomId } from '../../../shared/ids.ts'
import type { VendorCommand, VendorSession } from '../sdk.ts'

export interface GuestPlace {
  readonly sandboxId: string
  /** How long a log may be silent before we check that the command still runs. */
  readonly silenceMs: number
  hasAgent?: boolean
}

/** Runs our scripts in one run of a sandbox. */
export class Guest {
  readonly session: VendorSession
  readonly #place: GuestPlace
  readonly #explain: (error: unknown, signal?: AbortSignal) => Promise<unknown>

  constructor(
    session: VendorSession,
    place: GuestPlace,
    explain: (error: unknown, signal?: AbortSignal) => Promise<unknown>,
  ) {
    this.session = session
    this.#place = place
    this.#explain = explain
  }

  async do<T>(work: (session: VendorSession) => Promise<T>, signal?: AbortSignal): Promise<T> {
    try {
      return await work(this.session)
    } catch (error) {
      throw await this.#explain(error, signal)
    }
  }

  /** The agent in this run; see `shared/guest`. Its output is read in pages: the vendor returns text, and keeps all of it. */
  link(): GuestLink {
    const { sandboxId } = this.#place
    const facts = { provider: 'vercel', sandboxId }
    return {
      ...facts,
      place: 'in the sandbox',
      id: this.session.sessionId,
      start: '-',
      page: { waitMs: pageMs, bytes: 1024 * 1024 },
      open: async (verb, words, call) =>
        new TextStream(await this.#run(verb, words, call), { ...facts, what: call.what }),
      ask: async (verb, words, call) => {
        const { text, code } = await this.#run(verb, words, call)
        if (code === 0) return text
        throw guestError(code, { ...facts, what: call.what })
      },
      upload: async (content, { signal }) => {
        const name = `in-${randomId()}`
        await this.do(
          (session) => session.writeFiles([{ path: `${guestFolder}/${name}`, content }], { signal }),
          signal,
        )
        return name
      },
      // A page can be asked for again.
      goesOn: async (error, failures) => failures <= patience && SandboxError.is(error, ...passing),
    }
  }

  /** Passes the agent's text to the first call, and to one that does not find it. */
  async #run(
    verb: string,
    words: readonly Word[],
    { input, signal, waitMs = 0 }: GuestCall,
  ): Promise<FramedResponse> {
    for (let installing = !this.#place.hasAgent; ; installing = true) {
      const nonce = randomId(33)
      const env = linesInEnv(input)
      if (installing) env.SANDKASTEN_AGENT = agentScript
      const args = ['-c', framedLine, agentName, nonce, verb, ...words.map(String)]
      // Do not cancel the request: its effect would be unknown.
      const starting = this.do((session) => session.runCommand({ cmd: 'sh', args, env, detached: true }))
      const command = await abortable(starting, signal)
      const response = await this.#response(command, nonce, waitMs, signal)
      if (response.code === agentMissing && !installing) continue
      this.#place.hasAgent = true
      return response
    }
  }

  /** Reads the command's log, again if it breaks off: the command exists, so that has no other effect. */
  async #response(
    command: VendorCommand,
    nonce: string,
    waitMs: number,
    signal: AbortSignal | undefined,
  ): Promise<FramedResponse> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.do(async () => {
          const text = await this.#log(command, waitMs, signal)
          const response = framed(text, nonce)
          if (response) return response
          throw new SandboxError('connection_lost', 'The log of a command is incomplete.', {
            provider: 'vercel',
          })
        }, signal)
      } catch (error) {
        if (attempt > patience || !SandboxError.is(error, ...passing)) throw error
      }
    }
  }

  /** A log that is silent after its command has ended is on a dead connection. */
  async #log(command: VendorCommand, waitMs: number, signal: AbortSignal | undefined): Promise<string> {
    const logs = command.logs()
    const iterator = logs[Symbol.asyncIterator]()
    let text = ''
    try {
      for (;;) {
        const next = iterator.next()
        next.catch(() => {})
        let entry = await abortable(within(next, this.#place.silenceMs), signal)
        while (entry === undefined) {
          const { exitCode } = await this.session.getCommand(command.cmdId, { signal })
          entry = await abortable(
            within(next, exitCode === null ? waitMs + this.#place.silenceMs : 0),
            signal,
          )
          if (entry === undefined && exitCode !== null) return text
        }
        if (entry.done) return text
        // stderr carries only messages of the shell itself.
        if (entry.value.stream === 'stdout') text += entry.value.data
        if (text.length > mostLetters)
          throw new SandboxError('too_large', 'The response of a command is too long.', {
            provider: 'vercel',
          })
      }
    } finally {
      logs.close()
      void Promise.resolve(iterator.return?.()).catch(() => {})
    }
  }

  async ask(
    script: string,
    args: readonly string[],
    signal?: AbortSignal,
  ): Promise<{ exitCode: number; stdout: string }> {
    return this.do(async (session) => {
      const finished = await session.runCommand({
        cmd: 'sh',
        args: ['-c', script, 'sandkasten', ...args],
        signal,
      })
      return { exitCode: finished.exitCode, stdout: await finished.stdout() }
    }, signal)
  }

  /** Returns the script's output, or throws the error that it names. */
  async tell(script: string, args: readonly string[], path: string, signal?: AbortSignal): Promise<string> {
    const { exitCode, stdout } = await this.ask(script, args, signal)
    if (exitCode === 0) return stdout
    if (exitCode === refused)
      throw new SandboxError(
        stdout as SandboxErrorCode,
        `${messages[stdout] ?? 'The operation failed'}: ${path}`,
      )
    throw new SandboxError('provider_error', `A script in the sandbox ended with ${exitCode}: ${path}`, {
      provider: 'vercel',
      hint: 'The image needs sh, GNU coreutils, findutils and grep; its disk may be full.',
    })
  }
}

/** How often a log, or a page, may break off in a row. */
const patience = 3
/** After these errors the command may still exist. A truncated line is invalid JSON, so `provider_error` is among them. */
const passing = ['connection_lost', 'unavailable', 'timeout', 'provider_error'] as const
const pageMs = 20_000
const mostLetters = 64 * 1024 * 1024

/** Undefined if it takes longer. */
async function within<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

const messages: Readonly<Record<string, string>> = {
  file_not_found: 'The file or folder does not exist',
  not_a_directory: 'Part of the path is not a folder',
  is_a_directory: 'The path is a folder',
  permission_denied: 'Permission denied',
  file_exists: 'The path exists already',
  directory_not_empty: 'The folder is not empty',
  invalid_argument: 'The path is not a symbolic link',
}
