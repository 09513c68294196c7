import { SandboxError, type SandboxErrorCode } from '../errors.ts'
import { retryAfterMs } from '../shared/backoff.ts'

/** One provider's part in a call of a group. */
export interface FailoverAttempt {
  readonly provider: string
  /** Its place in the group, from 0: two members may have the same name. */
  readonly place: number
  readonly outcome: 'chosen' | 'failed'
  readonly durationMs: number
  readonly code?: SandboxErrorCode
  readonly message?: string
  /** What was found of a create that failed, in words. */
  readonly leftovers?: string
}

/** Which providers were tried, why each failed, and which it became. `String(account)` is for people. */
export class FailoverAccount {
  readonly attempts: readonly FailoverAttempt[]
  /** The provider that it became. */
  readonly chosen?: string
  /** Why no other one was tried after the last, where that is so. */
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

/** The failure itself, also where clean-up failed too and both are told. */
export function reasonOf(error: unknown): SandboxError | undefined {
  const first = error instanceof AggregateError ? error.errors[0] : error
  return SandboxError.is(first) ? first : undefined
}

/** A provider that says that it refused has made nothing. One whose answer was lost, or whose clean-up failed, may have. */
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
    : { message: 'something that is no SandboxError' }
  return { provider: member.name, place, outcome: 'failed', durationMs, ...why }
}

export function whyStopped(reason: SandboxError | undefined, mayGoOn: boolean): string {
  if (!mayGoOn) return 'No other was tried: work had begun in the sandbox, and is not begun twice.'
  return `No other was tried: ${reason ? reason.code : 'this'} is not a failure that another provider could mend.`
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
  return new SandboxError(code, `No provider of the group could do it.\n${account}`, {
    hint: reasons.find((reason) => reason.code !== 'not_found')?.hint ?? reasons[0]!.hint,
    details: {
      attempts: account.attempts,
      // The soonest, if all of them said when.
      ...(waits.every((ms) => ms !== undefined) ? { retryAfterMs: Math.min(...waits) } : {}),
    },
    cause: new AggregateError(errors),
  })
}
