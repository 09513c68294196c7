import {
  VercelProvider,
  type VercelProviderOptions,
  vercelOptionsOf,
  vercelRequestToken,
} from '../providers/vercel/index.ts'
import type { SandboxCore } from '../spec/index.ts'
import type { ExecutorProvider } from './conversation.ts'
import { ProviderSandboxExecutor, type ProviderSandboxExecutorOptions } from './provider-executor.ts'

export interface VercelSandboxExecutorOptions extends Partial<ProviderSandboxExecutorOptions> {
  /** Default `python3.13` on Vercel; with another `provider`, its own default. */
  runtime?: string
  /** Options for the default provider. Default: credentials from the environment, or from the current request. */
  vercel?: VercelProviderOptions
}

/** The executor over Vercel. Defaults: Python, five minutes, and no allow-list, because a microVM isolates. */
export class VercelSandboxExecutor extends ProviderSandboxExecutor {
  constructor({
    vercel,
    provider = new LateVercelProvider(vercel),
    runtime = provider.name === 'vercel' ? 'python3.13' : undefined,
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
  readonly createOptions = new Set(['runtime', 'lifetimeMs', 'snapshotId'] as const)
  readonly #options: VercelProviderOptions | undefined
  #made: VercelProvider | undefined

  constructor(options: VercelProviderOptions | undefined) {
    this.#options = options
  }

  async getOrCreate(options: Parameters<ExecutorProvider['getOrCreate']>[0]): Promise<SandboxCore> {
    return await this.#provider().getOrCreate(options)
  }

  list: ExecutorProvider['list'] = async (options) => this.#provider().list(options)
  destroy: ExecutorProvider['destroy'] = async (sandboxId) => this.#provider().destroy(sandboxId)
  deleteSnapshot = async (snapshotId: string): Promise<boolean> => this.#provider().deleteSnapshot(snapshotId)

  #provider(): VercelProvider {
    this.#made ??= new VercelProvider(this.#options ?? ownCredentials())
    return this.#made
  }
}

/** Those that a user has set, otherwise the token of each request, otherwise the token of the environment. */
function ownCredentials(): VercelProviderOptions {
  const { oidcToken, ...given } = vercelOptionsOf(process.env)
  if (given.token !== undefined && given.teamId !== undefined && given.projectId !== undefined) return given
  if (oidcToken === undefined && vercelRequestToken() === undefined && given.token !== undefined) return given
  return { oidcToken: () => vercelRequestToken() ?? (process.env.VERCEL_OIDC_TOKEN || undefined) }
}
