import { SandboxError } from '../errors.ts'
import type { SandboxExecutor } from './executor.ts'
import { LocalSandboxExecutor, type LocalSandboxExecutorOptions } from './local-executor.ts'
import { ProviderSandboxExecutor, type ProviderSandboxExecutorOptions } from './provider-executor.ts'
import { VercelSandboxExecutor, type VercelSandboxExecutorOptions } from './vercel-executor.ts'

export type GetSandboxExecutorOptions =
  | ({ kind: 'local' } & LocalSandboxExecutorOptions)
  | ({ kind: 'vercel' } & VercelSandboxExecutorOptions)
  | ({ kind?: undefined } & ProviderSandboxExecutorOptions)
  /** Nothing chosen: Vercel where `VERCEL=1`, otherwise this machine. */
  | {
      kind?: undefined
      provider?: undefined
      conversationId?: string
      env?: Readonly<Record<string, string | undefined>>
    }

/**
 * An executor for one conversation. Every call makes a new object; with the same `conversationId` it stands for the
 * same sandbox, without one for a sandbox of its own. Nothing is shared through this module.
 */
export function getSandboxExecutor(options: GetSandboxExecutorOptions = {}): SandboxExecutor {
  if (options.kind === 'local') {
    const { kind: _, ...rest } = options
    return new LocalSandboxExecutor(rest)
  }
  if (options.kind === 'vercel') {
    const { kind: _, ...rest } = options
    return new VercelSandboxExecutor(rest)
  }
  if (options.kind !== undefined) {
    throw new SandboxError(
      'invalid_argument',
      `There is no executor of the kind “${String((options as { kind: unknown }).kind)}”.`,
      { hint: "Use 'local' or 'vercel', or pass a provider." },
    )
  }
  if (options.provider) return new ProviderSandboxExecutor(options)
  const { conversationId, env = process.env } = options
  return env.VERCEL === '1'
    ? new VercelSandboxExecutor({ conversationId })
    : new LocalSandboxExecutor({ conversationId })
}
