import path from 'node:path'
import { SandboxError } from '../errors.ts'
import { type LocalCapabilities, LocalProvider } from '../providers/local/index.ts'
import type { CommandResult, SandboxHandle } from '../spec/index.ts'
import { AllowList, defaultAllowedCommands } from './allow-list.ts'
import type { ExecuteOptions } from './executor.ts'
import { ProviderSandboxExecutor } from './provider-executor.ts'

export interface LocalSandboxExecutorOptions {
  conversationId?: string
  /** The folder for files of conversations. Default: `.sandbox` in the current directory. */
  directory?: string
  /** Names of programs that may be started, or `'any'`. Default: programs for files and text, python3 and node. */
  allowedCommands?: readonly string[] | 'any'
  timeoutMs?: number
  maxOutputBytes?: number
}

/** Runs commands on this machine, for development. No isolation; the allow-list is a guard rail. */
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
      throw new SandboxError('unsupported', 'The local executor does not run commands as root.', {
        hint: 'Omit sudo.',
      })
    this.#allowed?.check(command, options.env)
    return super.execute(command, args, options)
  }

  /** Ends all processes and empties the conversation's folder. Other conversations are not affected. */
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
