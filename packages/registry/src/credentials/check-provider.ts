import { SandboxError, type SandboxProvider } from '@sandkasten/sdk'
import { abortable } from '@sandkasten/sdk/provider'

export interface CheckOptions {
  readonly signal?: AbortSignal
  readonly timeoutMs: number
  /** For people: `Daytona`. */
  readonly title: string
}

/** Asks the provider whether it accepts the credentials. Throws otherwise, and when it does not answer in time. */
export async function checkProvider(
  provider: SandboxProvider,
  { signal, timeoutMs, title }: CheckOptions,
): Promise<void> {
  const limit = AbortSignal.timeout(timeoutMs)
  const both = signal ? AbortSignal.any([signal, limit]) : limit
  const answered = await abortable(provider.healthCheck({ signal: both }), both).catch((error: unknown) => {
    if (!limit.aborted || signal?.aborted) throw error
    throw new SandboxError(
      'timeout',
      `${title} did not answer within ${timeoutMs / 1000} s; nothing was stored.`,
      {
        provider: provider.name,
        hint: {
          sdk: 'Check the address and the network, or pass check: false.',
          http: 'Check the address and the network.',
          cli: 'Check the address and the network, or pass --no-check.',
        },
      },
    )
  })
  if (answered) return
  throw new SandboxError(
    'unauthenticated',
    `${title} cannot be reached or does not accept the credentials; nothing was stored.`,
    {
      provider: provider.name,
      hint: {
        sdk: 'Check the key and the address. check: false stores them without asking the provider.',
        http: 'Check the key and the address.',
        cli: 'Check the key and the address. --no-check stores them without asking the provider.',
      },
    },
  )
}
