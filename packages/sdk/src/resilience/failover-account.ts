import { SandboxError, type SandboxErrorCode } from '../errors.ts'
import { retryAfterMs } from '../shared/calls/backoff.ts'

export interface FailoverAttempt {
  readonly provider: string
  /** Its position in the group, from 0: two members may have the same name. */
  readonly place: number
  readonly outcome: 'chosen' | 'failed'
  readonly durationMs: number
  readonly code?: SandboxErrorCode
  readonly message?: string
  /** What the search after a failed create found, as text. */
  readonly leftovers?: string
}

/**
 * Which providers were tried, why each failed, and which one was chosen. `String(account)` is the text for people.
 */
export class FailoverAccount {
  readonly attempts: readonly FailoverAttempt[]
  readonly chosen?: string
  /** Why no other provider was tried after the last one, if so. */
  readonly stopped?: string

  constructor(attempts: readonly FailoverAttempt[], stopped?: string) {
    this.attempts = attempts
    const chosen = attempts.find(({ outcome }) => outcome === 'chosen')
    if (chosen) this.chosen = chosen.provider
    if (stopped !== undefined) this.stopped = stopped
  }

  toString(): string {
    const lines = this.attempts.map(({ provider, outcome, durationMs, code, message, leftovers }, index) => {
      const after = `after ${Math.round(durationMs)} ms`
      const how =
        outcome === 'chosen' ? `chosen, ${after}.` : `failed ${after} with ${code ?? 'an error'}: ${message}`
      return `${index + 1}. ${provider}: ${how}${leftovers === undefined ? '' : ` (${leftovers})`}`
    })
    if (this.stopped !== undefined) lines.push(this.stopped)
    return lines.join('\n')
  }
}

/** The original failure, also if the cleanup failed too and both were reported. */
export function reasonOf(error: unknown): SandboxError | undefined {
  const first = error instanceof AggregateError ? error.errors[0] : error
  return SandboxError.is(first) ? first : undefined
}

/** A provider that refused has created nothing. After a lost response or a failed cleanup, something may be left. */
export function mayHaveLeft(error: unknown, reason: SandboxError | undefined): boolean {
  if (error instanceof AggregateError || reason === undefined) return true
  return ['connection_lost', 'timeout', 'unavailable', 'provider_error', 'internal', 'aborted'].includes(
    reason.code,
  )
}

export function failed(
  member: { readonly name: string },
  place: number,
  durationMs: number,
  reason: SandboxError | undefined,
): FailoverAttempt {
  const why = reason
    ? { code: reason.code, message: reason.message }
    : { message: 'an error that is not a SandboxError' }
  return { provider: member.name, place, outcome: 'failed', durationMs, ...why }
}

export function whyStopped(reason: SandboxError | undefined, mayGoOn: boolean): string {
  if (!mayGoOn) return 'No other was tried: work had begun in the sandbox, and is not repeated.'
  return `No other was tried: another provider could not fix ${reason ? reason.code : 'this'}.`
}

export function exhausted(errors: readonly unknown[], account: FailoverAccount): SandboxError {
  const reasons = errors.map(reasonOf).filter((reason) => reason !== undefined)
  const absent = reasons.every(({ code }) => code === 'not_found')
  const waits = reasons.map(retryAfterMs)
  const code = absent
    ? 'not_found'
    : reasons.every(({ code }) => code === reasons[0]!.code)
      ? reasons[0]!.code
      : 'unavailable'
  return new SandboxError(code, `All providers of the group failed.\n${account}`, {
    hint: reasons.find((reason) => reason.code !== 'not_found')?.hint ?? reasons[0]!.hint,
    details: {
      attempts: account.attempts,
      // The shortest wait, if all providers gave one.
      retryAfterMs: waits.every((ms) => ms !== undefined) ? Math.min(...waits) : undefined,
    },
    cause: new AggregateError(errors),
  })
}
