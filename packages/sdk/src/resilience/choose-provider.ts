import { checkLabels } from '../core/validate.ts'
import type { SandboxError, SandboxErrorCode } from '../errors.ts'
import { throwIfAborted } from '../shared/calls/abort.ts'
import type { Clock } from '../shared/calls/clock.ts'
import { randomId } from '../shared/ids.ts'
import type { CreateSandboxOpts, SandboxHandle, SandboxProvider } from '../spec/index.ts'
import type { FailoverOptions } from './failover.ts'
import {
  exhausted,
  FailoverAccount,
  type FailoverAttempt,
  failed,
  mayHaveLeft,
  reasonOf,
  whyStopped,
} from './failover-account.ts'
import { attemptLabel, type Leftovers } from './leftovers.ts'
import { within } from './time-limit.ts'

export interface ChoiceOptions {
  readonly triesNext: ReadonlySet<SandboxErrorCode>
  readonly adapt: FailoverOptions['adapt'] | undefined
  readonly attemptTimeoutMs: number | undefined
  readonly onChoice: FailoverOptions['onChoice'] | undefined
  readonly clock: Clock
}

export type Make = (member: SandboxProvider, options: CreateSandboxOpts) => Promise<SandboxHandle>

export interface ChoiceTerms {
  /** Default: all members. */
  readonly among?: readonly SandboxProvider[]
  readonly attempts?: readonly FailoverAttempt[]
  readonly errors?: readonly unknown[]
  /** Codes that only mean: try the next provider. */
  readonly passesOver?: readonly SandboxErrorCode[]
  /** Continue only if it is certain that the failed attempt left nothing. */
  readonly needsCertainty?: boolean
  /** False if the call may return an existing sandbox. */
  readonly creates?: boolean
  /** Whether another provider may be tried; called after each failure. */
  readonly may?: () => boolean
}

/** The options for one provider, and the label that finds the sandbox if the response is lost. */
interface Marked {
  readonly attempt: string | undefined
  readonly given: CreateSandboxOpts
}

/** Tries providers in order until one creates a sandbox, cleans up after the others, and records the reasons. */
export class Choice {
  readonly #members: readonly SandboxProvider[]
  readonly #options: ChoiceOptions
  readonly #leftovers: Leftovers
  readonly #accounts = new WeakMap<object, FailoverAccount>()

  constructor(members: readonly SandboxProvider[], options: ChoiceOptions, leftovers: Leftovers) {
    this.#members = members
    this.#options = options
    this.#leftovers = leftovers
  }

  explain(subject: object): FailoverAccount | undefined {
    return this.#accounts.get(subject)
  }

  triesNext(reason: SandboxError | undefined): boolean {
    return reason !== undefined && this.#options.triesNext.has(reason.code)
  }

  recorded<T>(subject: T, account: FailoverAccount): T {
    if (typeof subject === 'object' && subject !== null) this.#accounts.set(subject, account)
    try {
      this.#options.onChoice?.(account)
    } catch {
      // A listener that throws must not cost the caller the new sandbox.
    }
    return subject
  }

  async firstThatCan(
    options: CreateSandboxOpts,
    make: Make,
    terms: ChoiceTerms = {},
  ): Promise<SandboxHandle> {
    const { among = this.#members, passesOver = [], creates = true, may = () => true } = terms
    const attempts = [...(terms.attempts ?? [])]
    const errors = [...(terms.errors ?? [])]
    // The search runs while the next provider is tried. Its result is reported before the caller's call returns,
    // unless the call was cancelled.
    const searches: Promise<boolean>[] = []
    const account = async (stopped?: string) => {
      if (!options.signal?.aborted) await Promise.all(searches)
      return new FailoverAccount([...attempts], stopped)
    }
    for (const member of among) {
      throwIfAborted(options.signal, 'Creating the sandbox')
      const place = this.#members.indexOf(member)
      const began = this.#options.clock.now()
      const marked = this.#marked(member, options)
      try {
        const sandbox = await this.#attempt(member, marked, make, creates)
        const durationMs = this.#options.clock.now() - began
        attempts.push({ provider: member.name, place, outcome: 'chosen', durationMs })
        return this.recorded(sandbox, await account())
      } catch (error) {
        errors.push(error)
        const reason = reasonOf(error)
        const index = attempts.push(failed(member, place, this.#options.clock.now() - began, reason)) - 1
        // If the caller's own work had begun, the provider has removed the sandbox or reported that it could not.
        if (mayHaveLeft(error, reason) && (may() || error instanceof AggregateError))
          searches.push(
            this.#searchLeft(member, marked.attempt, options.name).then(({ words, sure }) => {
              attempts[index] = { ...attempts[index]!, leftovers: words }
              return sure
            }),
          )
        const triesNext = this.triesNext(reason) || (reason !== undefined && passesOver.includes(reason.code))
        if (!triesNext || !may()) {
          const stopped = member === among.at(-1) ? undefined : whyStopped(reason, may())
          throw this.recorded(error, await account(stopped))
        }
        if (terms.needsCertainty && !(await Promise.all(searches)).every((sure) => sure)) {
          const stopped = `No other was tried: “${options.name}” may have been created at “${member.name}”.`
          throw this.recorded(error, await account(stopped))
        }
      }
    }
    const whole = await account()
    throw this.recorded(errors.length === 1 ? errors[0] : exhausted(errors, whole), whole)
  }

  /** Adds a new label for each attempt, which finds its leftovers. */
  #marked(member: SandboxProvider, options: CreateSandboxOpts): Marked {
    const given = this.#options.adapt?.(options, member.name) ?? options
    if (!member.createOptions.has('labels')) return { attempt: undefined, given }
    const attempt = randomId()
    return { attempt, given: { ...given, labels: { ...checkLabels(given.labels), [attemptLabel]: attempt } } }
  }

  #attempt(
    member: SandboxProvider,
    { attempt, given }: Marked,
    make: Make,
    creates: boolean,
  ): Promise<SandboxHandle> {
    const { attemptTimeoutMs: ms, clock } = this.#options
    if (ms === undefined) return make(member, given)
    const what = `Creating the sandbox at “${member.name}”`
    return within({ ms, clock, signal: given.signal, what, provider: member.name }, (signal) => {
      const making = make(member, { ...given, signal })
      making
        .then(async (sandbox) => {
          // A provider that ignores signals may still return a sandbox, which has no user. A sandbox that was only
          // found belongs to another caller: it lacks the label of this attempt.
          if (signal.aborted && (creates || (await isOf(sandbox, attempt)))) await sandbox.destroy()
        })
        .catch(() => {})
      return making
    })
  }

  /**
   * A sandbox without a name is unknown to other callers, so it can be searched for later. A named sandbox may be
   * found and used by others meanwhile, so it is searched for once, immediately.
   */
  #searchLeft(
    member: SandboxProvider,
    attempt: string | undefined,
    name: string | undefined,
  ): Promise<{ words: string; sure: boolean }> {
    if (attempt !== undefined) return this.#leftovers.search(member, attempt, { later: name === undefined })
    return Promise.resolve({
      words: 'does not support labels, so leftovers cannot be searched for',
      sure: false,
    })
  }
}

async function isOf(sandbox: SandboxHandle, attempt: string | undefined): Promise<boolean> {
  return attempt !== undefined && (await sandbox.info()).labels[attemptLabel] === attempt
}
