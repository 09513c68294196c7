import { checkKnown } from '../core/validate.ts'
import { SandboxError } from '../errors.ts'
import type { SandboxExecutor } from './executor.ts'
import { LocalSandboxExecutor, type LocalSandboxExecutorOptions } from './local-executor.ts'
import { ProviderSandboxExecutor, type ProviderSandboxExecutorOptions } from './provider-executor.ts'
import { VercelSandboxExecutor, type VercelSandboxExecutorOptions } from './vercel-executor.ts'

export type GetSandboxExecutorOptions =
  | ({ kind: 'local' } & LocalSandboxExecutorOptions)
  | ({ kind: 'vercel' } & VercelSandboxExecutorOptions)
  | ({ kind?: undefined } & ProviderSandboxExecutorOptions)
  /** No choice: Vercel if `VERCEL=1`, otherwise this machine. */
  | {
      kind?: undefined
      provider?: undefined
      conversationId?: string
      env?: Readonly<Record<string, string | undefined>>
    }

/**
 * Creates an executor for one conversation. Executors with the same `conversationId` share a sandbox; without one,
 * each has its own. This module keeps no state.
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
      `The kind “${String((options as { kind: unknown }).kind)}” of executor does not exist.`,
      { hint: "Use 'local' or 'vercel', or pass a provider." },
    )
  }
  if (options.provider) return new ProviderSandboxExecutor(options)
  checkKnown(
    options,
    ['kind', 'provider', 'conversationId', 'env'],
    'getSandboxExecutor() without a kind or a provider',
  )
  const { conversationId, env = process.env } = options
  return env.VERCEL === '1'
    ? new VercelSandboxExecutor({ conversationId })
    : new LocalSandboxExecutor({ conversationId })
}
