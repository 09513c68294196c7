import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError, type SandboxHandle, type SandboxProvider, type SandboxStatus } from '@sandkasten/sdk'
import type { Timeouts } from '../context.ts'
import { request } from './deadline.ts'

/** What the provider says about a sandbox. */
export type Observed =
  | { readonly status: 'gone' }
  | {
      readonly status: Exclude<SandboxStatus, 'destroyed'>
      readonly rawStatus?: string
      readonly expiresAt?: Date
      /** Bound to the incarnation that was observed. */
      readonly handle: SandboxHandle
    }

/** What to ask about, and for whom. */
export interface Question {
  readonly provider: SandboxProvider
  readonly sandboxId: string
  /** The sandbox's name, for errors. */
  readonly name: string
  readonly signal: AbortSignal | undefined
  readonly timeouts: Timeouts
}

/** Asks the provider without waking the sandbox. */
export async function observe({ provider, sandboxId, name, signal, timeouts }: Question): Promise<Observed> {
  return request(
    { ms: timeouts.lookMs, signal, what: `Asking ${provider.name} for “${name}”` },
    async (signal) => {
      try {
        const handle = await provider.get(sandboxId, { resume: false, signal })
        const { status, rawStatus, expiresAt } = await handle.info({ signal })
        return status === 'destroyed' ? gone : { status, rawStatus, expiresAt, handle }
      } catch (error) {
        if (SandboxError.is(error, 'not_found')) return gone
        throw error
      }
    },
  )
}

/**
 * Asks until the sandbox is neither being created nor in a status that the SDK does not know. Throws `unavailable` with
 * the provider's own word after `settleMs`: such a sandbox is neither used nor replaced.
 */
export async function settled(question: Question, onWait?: (status: string) => void): Promise<Observed> {
  return wait(question, ({ status }) => status !== 'creating' && status !== 'unknown', onWait)
}

/** Asks until a sandbox that was started runs. */
export async function running(question: Question): Promise<Exclude<Observed, { status: 'gone' }>> {
  const observed = await wait(
    question,
    ({ status }) => status === 'running' || status === 'failed' || status === 'gone',
  )
  if (observed.status === 'running') return observed
  throw new SandboxError(
    'unavailable',
    `“${question.name}” did not start; its status is ${observed.status}.`,
    {
      provider: question.provider.name,
      hint: 'Try again: a sandbox that is gone is restored from its last snapshot.',
      details: { status: observed.status },
    },
  )
}

async function wait(
  question: Question,
  done: (observed: Observed) => boolean,
  onWait?: (status: string) => void,
): Promise<Observed> {
  const { name, provider, signal, timeouts } = question
  const until = performance.now() + timeouts.settleMs
  for (let round = 0; ; round += 1) {
    const observed = await observe(question)
    if (done(observed)) return observed
    const raw = 'rawStatus' in observed ? observed.rawStatus : undefined
    const word = raw ?? observed.status
    if (round === 0) onWait?.(word)
    if (performance.now() >= until)
      throw new SandboxError(
        'unavailable',
        `“${name}” is still in the status “${word}” at ${provider.name}.`,
        {
          provider: provider.name,
          hint: 'Try again later, or look at the sandbox in the provider’s console.',
          details: { status: observed.status, rawStatus: raw },
        },
      )
    const pauseMs = Math.min(50 * 1.6 ** round, 2_000, Math.max(until - performance.now(), 1))
    await sleep(pauseMs, undefined, { signal }).catch(() => signal?.throwIfAborted())
  }
}

const gone: Observed = { status: 'gone' }
