import { VercelProvider, type VercelProviderOptions, vercelOptionsOf } from '../providers/vercel/index.ts'
import type { SandboxCore } from '../spec/index.ts'
import {
  type ExecutorProvider,
  ProviderSandboxExecutor,
  type ProviderSandboxExecutorOptions,
} from './provider-executor.ts'

export interface VercelSandboxExecutorOptions extends Partial<ProviderSandboxExecutorOptions> {
  /** Default `python3.13`. */
  runtime?: string
  /** Options for the default provider. Default: credentials from the environment. */
  vercel?: VercelProviderOptions
}

/** The executor over Vercel. Defaults: Python, five minutes, and no allow-list, because a microVM isolates. */
export class VercelSandboxExecutor extends ProviderSandboxExecutor {
  constructor({
    runtime = 'python3.13',
    vercel,
    provider = new LateVercelProvider(vercel),
    create,
    ...rest
  }: VercelSandboxExecutorOptions = {}) {
    const defaults = { runtime, lifetimeMs: 5 * 60_000 }
    const known = Object.entries(defaults).filter(([option]) =>
      provider.createOptions.has(option as 'runtime'),
    )
    super({ ...rest, provider, create: { ...Object.fromEntries(known), ...create } })
  }
}

/** Created on first use, so that missing or expired credentials are reported by that call. */
class LateVercelProvider implements ExecutorProvider {
  readonly name = 'vercel'
  readonly createOptions = new Set(['runtime', 'lifetimeMs'] as const)
  readonly #options: VercelProviderOptions | undefined
  #provider: VercelProvider | undefined

  constructor(options: VercelProviderOptions | undefined) {
    this.#options = options
  }

  async getOrCreate(options: Parameters<ExecutorProvider['getOrCreate']>[0]): Promise<SandboxCore> {
    this.#provider ??= new VercelProvider(this.#options ?? vercelOptionsOf(process.env))
    return (await this.#provider.getOrCreate(options)) as unknown as SandboxCore
  }
}
