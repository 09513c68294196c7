import { SandboxError } from '../errors.ts'
import type { CommandResult, CreateSandboxOpts, SandboxCore, SandboxProviderCore } from '../spec/index.ts'
import type { ExecuteOptions, SandboxExecutor } from './executor.ts'

export const defaultTimeoutMs = 10_000
export const defaultMaxOutputBytes = 1024 * 1024

export type ExecutorProvider = Pick<SandboxProviderCore<never>, 'name' | 'createOptions'> & {
  getOrCreate(options: CreateSandboxOpts & { name: string }): Promise<SandboxCore>
}

export interface ProviderSandboxExecutorOptions {
  provider: ExecutorProvider
  /** The same id finds the same sandbox, also from another request or process. Default: a new one. */
  conversationId?: string
  /** Options for `provider.create`, which is called on first use. */
  create?: Omit<CreateSandboxOpts, 'name' | 'signal'>
  /** Default 10,000. */
  timeoutMs?: number
  /** The maximum size of stdout and stderr in a result; longer output sets `truncated`. Default 1 MiB. */
  maxOutputBytes?: number
}

/** The executor over any provider. The first call creates the sandbox; concurrent calls share it. */
export class ProviderSandboxExecutor implements SandboxExecutor {
  readonly conversationId: string
  readonly #options: ProviderSandboxExecutorOptions
  #sandbox: Promise<SandboxCore> | undefined

  constructor(options: ProviderSandboxExecutorOptions) {
    this.#options = options
    this.conversationId = options.conversationId ?? crypto.randomUUID()
  }

  async execute(
    command: string,
    args: readonly string[] = [],
    options: ExecuteOptions = {},
  ): Promise<CommandResult> {
    const { cwd, env, timeout = this.#options.timeoutMs ?? defaultTimeoutMs, sudo, signal } = options
    const sandbox = await this.sandbox()
    const program = sudo ? { cmd: 'sudo', args: ['-n', '--', command, ...args] } : { cmd: command, args }
    const maxOutputBytes = this.#options.maxOutputBytes ?? defaultMaxOutputBytes
    return sandbox.runCommand({ ...program, cwd, env, timeoutMs: timeout, maxOutputBytes, signal })
  }

  async writeFile(path: string, content: string | Uint8Array): Promise<void> {
    await (await this.sandbox()).files.writeFile(path, content)
  }

  async readFile(path: string): Promise<string | null> {
    try {
      return await (await this.sandbox()).files.readFile(path, 'utf8')
    } catch (error) {
      if (SandboxError.is(error, 'file_not_found')) return null
      throw error
    }
  }

  async listFiles(path = '.'): Promise<string[]> {
    return (await this.sandbox()).files.readdir(path)
  }

  async cleanup(): Promise<void> {
    const sandbox = this.#sandbox
    this.#sandbox = undefined
    await (await sandbox)?.destroy()
  }

  /** The conversation's sandbox, for everything beyond this interface. */
  async sandbox(): Promise<SandboxCore> {
    // Stored as a promise, so that concurrent calls share it; removed on failure.
    this.#sandbox ??= this.#open().catch((error) => {
      this.#sandbox = undefined
      throw error
    })
    return this.#sandbox
  }

  async #open(): Promise<SandboxCore> {
    const { provider, create } = this.#options
    return provider.getOrCreate({ ...create, name: `executor-${this.conversationId}` })
  }
}
