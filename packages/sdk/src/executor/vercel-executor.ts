import { SandboxError } from '../errors.ts'
import type { SandboxCore } from '../spec/index.ts'
import {
  type ExecutorProvider,
  ProviderSandboxExecutor,
  type ProviderSandboxExecutorOptions,
} from './provider-executor.ts'

export interface VercelSandboxExecutorOptions extends Partial<ProviderSandboxExecutorOptions> {
  /** Default `python3.13`. */
  runtime?: string
}

/** The executor over Vercel: its defaults are Python, five minutes, and no allow-list, because a microVM isolates. */
export class VercelSandboxExecutor extends ProviderSandboxExecutor {
  constructor({
    runtime = 'python3.13',
    provider = missingProvider,
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

/** Stands in until the provider is part of this package, so that the error comes when a sandbox is needed. */
const missingProvider: ExecutorProvider = {
  name: 'vercel',
  createOptions: new Set(),
  async getOrCreate(): Promise<SandboxCore> {
    throw new SandboxError(
      'unsupported',
      'The provider “vercel” is not part of this version of @sandkasten/sdk.',
      {
        provider: 'vercel',
        hint: 'Pass `provider` to VercelSandboxExecutor, or use getSandboxExecutor({ kind: "local" }).',
      },
    )
  },
}
