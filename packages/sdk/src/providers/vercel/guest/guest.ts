import { SandboxError, type SandboxErrorCode } from '../../../errors.ts'
import { refused } from '../../../shared/guest/script.ts'
import type { VendorSession } from '../sdk.ts'

/** One run of a sandbox, as our scripts reach it. */
export class Guest {
  readonly session: VendorSession
  /** Where scripts keep what they know of programs. Of this run alone: what was there before has ended. */
  readonly root: string
  readonly #explain: (error: unknown, signal?: AbortSignal) => Promise<unknown>

  constructor(session: VendorSession, explain: (error: unknown, signal?: AbortSignal) => Promise<unknown>) {
    this.session = session
    this.root = `/tmp/.sandkasten/${session.sessionId}`
    this.#explain = explain
  }

  /** A call of the vendor's, and what its failure means for this sandbox. */
  async do<T>(work: (session: VendorSession) => Promise<T>, signal?: AbortSignal): Promise<T> {
    try {
      return await work(this.session)
    } catch (error) {
      throw await this.#explain(error, signal)
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

  /** What the script says; its refusal as the error that it names. */
  async tell(script: string, args: readonly string[], path: string, signal?: AbortSignal): Promise<string> {
    const { exitCode, stdout } = await this.ask(script, args, signal)
    if (exitCode === 0) return stdout
    if (exitCode === refused)
      throw new SandboxError(stdout as SandboxErrorCode, `${messages[stdout] ?? 'It failed'}: ${path}`)
    throw new SandboxError('provider_error', `A script in the sandbox ended with ${exitCode}: ${path}`, {
      provider: 'vercel',
      hint: 'The image needs sh, GNU coreutils, findutils and grep; its disk may be full.',
    })
  }
}

const messages: Readonly<Record<string, string>> = {
  file_not_found: 'There is no such file or folder',
  not_a_directory: 'Part of the path is not a folder',
  is_a_directory: 'It is a folder',
  permission_denied: 'Permission denied',
  file_exists: 'It is there already',
  directory_not_empty: 'The folder is not empty',
  invalid_argument: 'It is not a symbolic link',
}
