import path from 'node:path'
import { SandboxError } from '../errors.ts'
import { type LocalCapabilities, LocalProvider } from '../providers/local/index.ts'
import type { CommandResult, SandboxHandle } from '../spec/index.ts'
import { AllowList, defaultAllowedCommands } from './allow-list.ts'
import type { ExecuteOptions } from './executor.ts'
import { ProviderSandboxExecutor } from './provider-executor.ts'

export interface LocalSandboxExecutorOptions {
  conversationId?: string
  /** Where conversations keep their files. Default `.sandbox` in the current directory. */
  directory?: string
  /** Program names that may be started; `'any'` for all. Default: programs for files and text, python3 and node. */
  allowedCommands?: readonly string[] | 'any'
  timeoutMs?: number
  maxOutputBytes?: number
}

/** The executor on this machine, for development. There is no isolation; the allow-list is a guard rail. */
export class LocalSandboxExecutor extends ProviderSandboxExecutor {
  readonly #allowed: AllowList | undefined

  constructor(options: LocalSandboxExecutorOptions = {}) {
    const { directory = '.sandbox', allowedCommands = defaultAllowedCommands, ...rest } = options
    super({
      ...rest,
      provider: new LocalProvider({ root: path.resolve(directory), acceptNoIsolation: true }),
    })
    this.#allowed = allowedCommands === 'any' ? undefined : new AllowList(allowedCommands)
  }

  override async execute(
    command: string,
    args: readonly string[] = [],
    options: ExecuteOptions = {},
  ): Promise<CommandResult> {
    if (options.sudo)
      throw new SandboxError('unsupported', 'Commands on this machine are not run as root.', {
        hint: 'Leave sudo out.',
      })
    this.#allowed?.check(command, options.env)
    return super.execute(command, args, options)
  }

  /** Ends what runs, empties the conversation's folder and keeps it. Other conversations are not touched. */
  override async cleanup(): Promise<void> {
    const sandbox = (await this.sandbox()) as LocalSandbox
    for (const { execId, running } of await sandbox.listProcesses()) {
      if (running) await (await sandbox.getProcess(execId)).kill('SIGKILL')
    }
    for (const name of await sandbox.files.readdir('.'))
      await sandbox.files.rm(name, { recursive: true, force: true })
  }
}

type LocalSandbox = SandboxHandle<LocalCapabilities>
