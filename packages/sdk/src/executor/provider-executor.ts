import { checkKnown } from '../core/validate.ts'
import { SandboxError } from '../errors.ts'
import type { CreateSandboxOpts, SandboxCore } from '../spec/index.ts'
import { Conversation, type ExecutorProvider } from './conversation.ts'
import type {
  CallOptions,
  ExecuteOptions,
  ExecuteResult,
  Opening,
  ReadOptions,
  SandboxExecutor,
} from './executor.ts'
import type { ExecutorKeepAliveOptions } from './kept-alive.ts'

export const defaultTimeoutMs = 10_000
export const defaultMaxOutputBytes = 1024 * 1024

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
  /** Keep the sandbox alive while the conversation uses it. Default true. */
  keepAlive?: boolean | ExecutorKeepAliveOptions
  /** Called when the sandbox has been opened: for the first call, and again after it had ended. */
  onOpen?: (opening: Opening) => void
}

/**
 * The executor over any provider. The first call creates the sandbox; concurrent calls share it. If the sandbox has
 * ended since the last call, the next call opens it again.
 */
export class ProviderSandboxExecutor implements SandboxExecutor {
  readonly conversationId: string
  readonly #options: ProviderSandboxExecutorOptions
  readonly #conversation: Conversation

  constructor(options: ProviderSandboxExecutorOptions) {
    checkKnown(options, known, 'The executor')
    this.#options = options
    this.conversationId = options.conversationId ?? crypto.randomUUID()
    const { provider, create, keepAlive, onOpen } = options
    this.#conversation = new Conversation({
      provider,
      name: `executor-${this.conversationId}`,
      shared: options.conversationId !== undefined,
      create,
      keepAlive,
      onOpen,
    })
  }

  get lastOpening(): Opening | undefined {
    return this.#conversation.lastOpening
  }

  async execute(
    command: string,
    args: readonly string[] = [],
    options: ExecuteOptions = {},
  ): Promise<ExecuteResult> {
    checkKnown(options, executeOptions, 'execute()')
    const { timeoutMs = defaultTimeoutMs, maxOutputBytes: ownMax = defaultMaxOutputBytes } = this.#options
    const { cwd, env, timeout = timeoutMs, sudo, signal, maxOutputBytes = ownMax } = options
    const program = sudo ? { cmd: 'sudo', args: ['-n', '--', command, ...args] } : { cmd: command, args }
    const { value, reopened } = await this.#conversation.use((sandbox) =>
      sandbox.runCommand({ ...program, cwd, env, timeoutMs: timeout, maxOutputBytes, signal }),
    )
    return reopened === undefined ? value : { ...value, reopened }
  }

  async executeLine(line: string, options?: ExecuteOptions): Promise<ExecuteResult> {
    return this.execute('sh', ['-c', bashOrSh, 'sh', line], options)
  }

  async writeFile(path: string, content: string | Uint8Array, { signal }: CallOptions = {}): Promise<void> {
    await this.#conversation.use(({ files }) => files.writeFile(path, content, { signal }))
  }

  async readFile(path: string, { maxBytes, signal }: ReadOptions = {}): Promise<string | null> {
    try {
      const read = { encoding: 'utf8', maxBytes, signal } as const
      return (await this.#conversation.use(({ files }) => files.readFile(path, read))).value
    } catch (error) {
      if (SandboxError.is(error, 'file_not_found')) return null
      throw error
    }
  }

  async listFiles(path = '.', { signal }: CallOptions = {}): Promise<string[]> {
    return (await this.#conversation.use(({ files }) => files.readdir(path, { signal }))).value
  }

  async cleanup(): Promise<void> {
    await this.#conversation.cleanup()
  }

  /** Saves the disk. If the sandbox is gone later, the next one starts from here. `cleanup()` deletes the snapshot. */
  async snapshot(): Promise<{ snapshotId: string }> {
    return { snapshotId: await this.#conversation.snapshot() }
  }

  /** The conversation's sandbox, for everything beyond this interface. The handle is not opened again. */
  async sandbox(): Promise<SandboxCore> {
    return this.#conversation.sandbox()
  }
}

const known: ReadonlyArray<keyof ProviderSandboxExecutorOptions | 'kind'> = [
  'kind',
  'provider',
  'conversationId',
  'create',
  'timeoutMs',
  'maxOutputBytes',
  'keepAlive',
  'onOpen',
]
const executeOptions: ReadonlyArray<keyof ExecuteOptions> = [
  'cwd',
  'env',
  'timeout',
  'sudo',
  'signal',
  'maxOutputBytes',
]

/** Models write lines for bash. */
const bashOrSh = 'command -v bash >/dev/null && exec bash -c "$1" bash; exec sh -c "$1" sh'
