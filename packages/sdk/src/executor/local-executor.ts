import path from 'node:path'
import { SandboxError } from '../errors.ts'
import { removeEmptyRoot } from '../folder/empty-root.ts'
import { LocalProvider } from '../providers/local/index.ts'
import type { CreateOption, SandboxCore } from '../spec/index.ts'
import { AllowList, defaultAllowedCommands } from './allow-list.ts'
import type { ExecutorProvider } from './conversation.ts'
import type { ExecuteOptions, ExecuteResult } from './executor.ts'
import { wordsOf } from './line-words.ts'
import { ProviderSandboxExecutor, type ProviderSandboxExecutorOptions } from './provider-executor.ts'

export interface LocalSandboxExecutorOptions
  extends Pick<ProviderSandboxExecutorOptions, 'conversationId' | 'timeoutMs' | 'maxOutputBytes' | 'onOpen'> {
  /** The folder for files of conversations. Default: `.sandbox` in the current directory. */
  directory?: string
  /** Names of programs that may be started, or `'any'`. Default: programs for files and text, python3 and node. */
  allowedCommands?: readonly string[] | 'any'
}

/** Runs commands on this machine, for development. No isolation; the allow-list is a guard rail. */
export class LocalSandboxExecutor extends ProviderSandboxExecutor {
  readonly #allowed: AllowList | undefined
  readonly #root: string

  constructor(options: LocalSandboxExecutorOptions = {}) {
    const { directory = '.sandbox', allowedCommands = defaultAllowedCommands, ...rest } = options
    const root = path.resolve(directory)
    // A local sandbox does not end by itself.
    super({ ...rest, provider: new LocalFolder(root), keepAlive: false })
    this.#root = root
    this.#allowed = allowedCommands === 'any' ? undefined : new AllowList(allowedCommands)
  }

  override async execute(
    command: string,
    args: readonly string[] = [],
    options: ExecuteOptions = {},
  ): Promise<ExecuteResult> {
    if (options.sudo)
      throw new SandboxError('unsupported', 'The local executor does not run commands as root.', {
        hint: 'Omit sudo.',
      })
    this.#allowed?.check(command, options.env)
    return super.execute(command, args, options)
  }

  /** With an allow-list, the line is one program with arguments: no shell runs, so it cannot start others. */
  override async executeLine(line: string, options?: ExecuteOptions): Promise<ExecuteResult> {
    if (!this.#allowed) return super.executeLine(line, options)
    const [command = '', ...args] = wordsOf(line)
    return this.execute(command, args, options)
  }

  /**
   * Ends all processes, and removes the conversation's folder. The last conversation also removes `directory`. The
   * next call creates both again.
   */
  override async cleanup(): Promise<void> {
    await super.cleanup()
    await removeEmptyRoot(this.#root)
  }
}

/** Uses a new provider for each opening, because a cleanup may have removed the root that a provider has prepared. */
class LocalFolder implements ExecutorProvider {
  readonly name = 'local'
  readonly createOptions: ReadonlySet<CreateOption>
  readonly #root: string

  constructor(root: string) {
    this.#root = root
    this.createOptions = this.#provider().createOptions
  }

  async getOrCreate(options: Parameters<ExecutorProvider['getOrCreate']>[0]): Promise<SandboxCore> {
    return (await this.#repeat((provider) => provider.getOrCreate(options))) as unknown as SandboxCore
  }

  list: ExecutorProvider['list'] = (options) => this.#repeat((provider) => provider.list(options))
  destroy: ExecutorProvider['destroy'] = (sandboxId) =>
    this.#repeat((provider) => provider.destroy(sandboxId))
  deleteSnapshot = (snapshotId: string): Promise<boolean> =>
    this.#repeat((provider) => provider.deleteSnapshot(snapshotId))

  /** Repeats what failed because the cleanup of another conversation removed the empty root meanwhile. */
  async #repeat<T>(work: (provider: LocalProvider) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await work(this.#provider())
      } catch (error) {
        if (!SandboxError.is(error, 'file_not_found') || attempt === 100) throw error
      }
    }
  }

  #provider(): LocalProvider {
    return new LocalProvider({ root: this.#root, acceptNoIsolation: true })
  }
}
