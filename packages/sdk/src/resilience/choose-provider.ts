import { checkLabels } from '../core/validate.ts'
import type { SandboxError, SandboxErrorCode } from '../errors.ts'
import { throwIfAborted } from '../shared/abort.ts'
import type { Clock } from '../shared/clock.ts'
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
  readonly goesOn: ReadonlySet<SandboxErrorCode>
  readonly adapt: FailoverOptions['adapt'] | undefined
  readonly attemptTimeoutMs: number | undefined
  readonly onChoice: FailoverOptions['onChoice'] | undefined
  readonly clock: Clock
}

export type Make = (member: SandboxProvider, options: CreateSandboxOpts) => Promise<SandboxHandle>

export interface ChoiceTerms {
  /** Default: all of them. */
  readonly among?: readonly SandboxProvider[]
  /** What went before, for the account. */
  readonly attempts?: readonly FailoverAttempt[]
  readonly errors?: readonly unknown[]
  /** Failures that only mean: not this one. */
  readonly passesOver?: readonly SandboxErrorCode[]
  /** Go on only when it is known that a failed attempt left nothing. */
  readonly needsCertainty?: boolean
  /** False where what is handed out may have been there before. */
  readonly creates?: boolean
  /** Whether another may be tried at all, asked after each failure. */
  readonly may?: () => boolean
}

/** What one provider is asked for, and the label by which it is found if the answer is lost. */
interface Marked {
  readonly attempt: string | undefined
  readonly given: CreateSandboxOpts
}

/** Tries providers in their order until one makes a sandbox, sees to what the others may have left, and remembers why. */
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

  /** Whether this is a failure after which another provider is tried. */
  goesOn(reason: SandboxError | undefined): boolean {
    return reason !== undefined && this.#options.goesOn.has(reason.code)
  }

  /** The subject, with its account, which is told too. */
  recorded<T>(subject: T, account: FailoverAccount): T {
    if (typeof subject === 'object' && subject !== null) this.#accounts.set(subject, account)
    try {
      this.#options.onChoice?.(account)
    } catch {
      // A listener's own failure must not cost the caller a sandbox that has just been made.
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
    // Looked for while the next one is tried; told before the caller hears, unless he has gone.
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
        // Where the caller's own work had begun the provider has removed the sandbox, or said that it could not.
        if (mayHaveLeft(error, reason) && (may() || error instanceof AggregateError))
          searches.push(
            this.#searchLeft(member, marked.attempt, options.name).then(({ words, sure }) => {
              attempts[index] = { ...attempts[index]!, leftovers: words }
              return sure
            }),
          )
        const goesOn = this.goesOn(reason) || (reason !== undefined && passesOver.includes(reason.code))
        if (!goesOn || !may()) {
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

  /** A new label for each attempt, by which its remains are found. */
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
          // One that comes after all, from a provider that does not listen, has nobody to use it. But one that was
          // only found is somebody's: it does not have the label of this attempt.
          if (signal.aborted && (creates || (await isOf(sandbox, attempt)))) await sandbox.destroy()
        })
        .catch(() => {
          // It is looked for by its label, too.
        })
      return making
    })
  }

  /**
   * A sandbox without a name is known to nobody else, so it can be looked for as long as one likes. One with a name may be found and
   * used by somebody in the meantime, so it is looked for at once and never later.
   */
  #searchLeft(
    member: SandboxProvider,
    attempt: string | undefined,
    name: string | undefined,
  ): Promise<{ words: string; sure: boolean }> {
    if (attempt !== undefined) return this.#leftovers.search(member, attempt, { later: name === undefined })
    return Promise.resolve({ words: 'knows no labels, so it cannot be asked what is left', sure: false })
  }
}

async function isOf(sandbox: SandboxHandle, attempt: string | undefined): Promise<boolean> {
  return attempt !== undefined && (await sandbox.info()).labels[attemptLabel] === attempt
}
