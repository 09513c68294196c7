import { SandboxError, type SandboxErrorCode } from '../../../errors.ts'
import { refused } from '../../../shared/guest/script.ts'
import type { VendorSession } from '../sdk.ts'

/** Runs our scripts in one run of a sandbox. */
export class Guest {
  readonly session: VendorSession
  /** The scripts' folder. It belongs to one run, because programs of earlier runs have ended. */
  readonly root: string
  readonly #explain: (error: unknown, signal?: AbortSignal) => Promise<unknown>

  constructor(session: VendorSession, explain: (error: unknown, signal?: AbortSignal) => Promise<unknown>) {
    this.session = session
    this.root = `/tmp/.sandkasten/${session.sessionId}`
    this.#explain = explain
  }

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

const messages: Readonly<Record<string, string>> = {
  file_not_found: 'The file or folder does not exist',
  not_a_directory: 'Part of the path is not a folder',
  is_a_directory: 'The path is a folder',
  permission_denied: 'Permission denied',
  file_exists: 'The path exists already',
  directory_not_empty: 'The folder is not empty',
  invalid_argument: 'The path is not a symbolic link',
}
