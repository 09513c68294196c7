import { SandboxError } from '../errors.ts'
import { onAbort } from '../shared/abort.ts'
import { backoffMs, retryAfterMs } from '../shared/backoff.ts'
import type { Clock } from '../shared/clock.ts'
import type { CallOptions, SandboxCore, SandboxInfo, SandboxLifetime, SandboxStatus } from '../spec/index.ts'
import type { Beat, BeatFailure, KeepAlive, KeepAliveEnd } from './keep-alive.ts'
import { SteadyClock } from './steady-clock.ts'
import { within } from './within.ts'

export interface HeartOptions {
  readonly leaseMs: number
  readonly everyMs: number
  readonly beatTimeoutMs: number
  readonly maxMs: number
  readonly save:
    | { beforeMs: number; timeoutMs: number; take: (call: CallOptions) => Promise<string> }
    | undefined
  readonly signal: AbortSignal | undefined
  readonly onBeat: ((beat: Beat) => void) | undefined
  readonly onError: ((error: unknown, failure: BeatFailure) => void) | undefined
  readonly onSnapshot: ((snapshotId: string) => void) | undefined
  readonly clock: Clock
}

type Reason = KeepAliveEnd['reason']

/** A timer of a machine that sleeps may stand still: no wait is longer than this without a look at the time. */
const tickMs = 10_000

/**
 * One loop: beat, save if the end is near, rest. Nothing else touches the state, so nothing overlaps. `stop()` and the
 * signal only fire `#over`, which cancels the call under way or the rest; the loop then finds itself ended.
 *
 * `#endsAt` is the best that is known of the sandbox's end: what the provider says, else what it promised to the last
 * extension. It is on the steady clock, as everything here.
 */
export class Heart implements KeepAlive {
  readonly ended: Promise<KeepAliveEnd>
  readonly #sandbox: SandboxCore & SandboxLifetime
  readonly #options: HeartOptions
  readonly #clock: SteadyClock
  readonly #deadline: number
  readonly #over = new AbortController()
  #reason: Reason = 'closed'
  #endsAt: number | undefined
  /** The end for which the disk is saved already, and the one of which it was said that it stays. */
  #savedFor: number | undefined
  #cappedAt: number | undefined
  #snapshotId: string | undefined
  #failures = { beat: 0, snapshot: 0 }
  #error: unknown
  /** Wakes the loop from its rest. */
  #wake: () => void = () => {}
  #asked = false
  #waiting: Array<() => void> = []

  constructor(sandbox: SandboxCore & SandboxLifetime, options: HeartOptions) {
    this.#sandbox = sandbox
    this.#options = options
    this.#clock = new SteadyClock(options.clock)
    this.#deadline = this.#clock.now() + options.maxMs
    const forget = onAbort(options.signal, () => this.#end('aborted'))
    this.ended = this.#live().finally(forget)
  }

  beat(): Promise<void> {
    if (this.#over.signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#asked = true
      this.#wake()
    })
  }

  stop(): Promise<KeepAliveEnd> {
    this.#end('closed')
    return this.ended
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #end(reason: Reason): void {
    if (this.#over.signal.aborted) return
    this.#reason = reason
    this.#over.abort()
    this.#wake()
  }

  async #live(): Promise<KeepAliveEnd> {
    while (!this.#over.signal.aborted) {
      this.#asked = false
      const joined = this.#waiting
      this.#waiting = []
      const rests = [await this.#beatOnce()]
      if (!this.#over.signal.aborted && this.#shouldSave()) rests.push(await this.#save())
      for (const resolve of joined) resolve()
      const rest = Math.min(...rests, this.#untilSave(), this.#deadline - this.#clock.now())
      if (!this.#over.signal.aborted) await this.#rest(rest)
      if (this.#clock.now() >= this.#deadline) this.#end('limit')
    }
    for (const resolve of this.#waiting) resolve()
    return {
      reason: this.#reason,
      ...(this.#snapshotId === undefined ? {} : { snapshotId: this.#snapshotId }),
      ...(this.#error === undefined ? {} : { error: this.#error }),
    }
  }

  /** Looks, puts the end off where it is too near, and says how long to rest. */
  async #beatOnce(): Promise<number> {
    try {
      const beat = await this.#within(this.#options.beatTimeoutMs, 'The beat', (signal) => this.#look(signal))
      if (!beat) return this.#options.everyMs
      this.#failures.beat = 0
      this.#error = undefined
      this.#tell(() => this.#options.onBeat?.(beat))
      return this.#options.everyMs
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) this.#end('destroyed')
      if (SandboxError.is(error, 'interrupted')) this.#end('interrupted')
      return this.#failed('beat', error)
    }
  }

  /** Undefined where there is nothing to keep alive now. */
  async #look(signal: AbortSignal): Promise<Beat | undefined> {
    const { leaseMs } = this.#options
    let info = await this.#sandbox.info({ signal })
    if (!this.#counts(info)) return undefined
    const now = this.#note(info)
    const wantedMs = Math.min(leaseMs, this.#deadline - now)
    const extended = wantedMs >= 1 && (info.expiresAt === undefined || this.#endsAt! - now < wantedMs)
    if (extended) {
      try {
        await this.#sandbox.extendTimeout(Math.ceil(wantedMs), { signal })
      } catch (error) {
        // It was stopped or paused between the look and the act.
        if (SandboxError.is(error, 'not_running') && !this.#counts(await this.#sandbox.info({ signal })))
          return undefined
        throw error
      }
      this.#endsAt = now + wantedMs
      // Where the provider tells the end, its word counts; where it does not, its promise.
      if (info.expiresAt !== undefined) {
        info = await this.#sandbox.info({ signal })
        if (!this.#counts(info)) return undefined
        this.#note(info)
        this.#checkMoved(info, now + wantedMs)
      }
    }
    return { extended, ...(info.expiresAt === undefined ? {} : { expiresAt: info.expiresAt }) }
  }

  /** Whether a sandbox that is like this is to be kept alive; ends everything if it never will be again. */
  #counts({ status }: SandboxInfo): boolean {
    const over = endings[status]
    if (over) this.#end(over)
    return !over && status !== 'paused'
  }

  #note({ expiresAt }: SandboxInfo): number {
    if (expiresAt !== undefined) this.#endsAt = expiresAt.getTime()
    return this.#clock.now()
  }

  /** A provider that answers well and leaves the end where it was has come to a limit, which nobody would hear of. */
  #checkMoved({ expiresAt }: SandboxInfo, wanted: number): void {
    const end = expiresAt?.getTime()
    const short = end === undefined ? 0 : wanted - end
    if (end === undefined || short <= Math.max(2000, this.#options.leaseMs / 10) || end === this.#cappedAt)
      return
    this.#cappedAt = end
    throw new SandboxError(
      'quota_exceeded',
      `The sandbox ends at ${expiresAt!.toISOString()}: the provider was asked to put that off, and did not.`,
      {
        provider: this.#sandbox.provider,
        sandboxId: this.#sandbox.sandboxId,
        hint: 'Raise the provider’s limit for lifetimes, or save the disk with autoSnapshot.',
      },
    )
  }

  #shouldSave(): boolean {
    return (
      this.#options.save !== undefined &&
      this.#endsAt !== undefined &&
      !this.#isSaved() &&
      this.#endsAt - this.#clock.now() <= this.#options.save.beforeMs
    )
  }

  /** One snapshot for an end, also when that is told a little differently each time. */
  #isSaved(): boolean {
    return this.#savedFor !== undefined && this.#endsAt! - this.#savedFor <= this.#options.save!.beforeMs
  }

  async #save(): Promise<number> {
    const { take, timeoutMs } = this.#options.save!
    const endsAt = this.#endsAt
    try {
      const snapshotId = await this.#within(timeoutMs, 'The snapshot', (signal) => take({ signal }))
      this.#snapshotId = snapshotId
      this.#savedFor = endsAt
      this.#failures.snapshot = 0
      this.#tell(() => this.#options.onSnapshot?.(snapshotId))
      return this.#options.everyMs
    } catch (error) {
      return this.#failed('snapshot', error)
    }
  }

  /** A rest must not last until it is too late to save. */
  #untilSave(): number {
    const { save } = this.#options
    if (!save || this.#endsAt === undefined || this.#isSaved()) return Infinity
    const left = this.#endsAt - save.beforeMs - this.#clock.now()
    return left > 0 ? left : Infinity
  }

  #failed(during: BeatFailure['during'], error: unknown): number {
    if (this.#over.signal.aborted) return 0
    this.#error = error
    this.#failures[during] += 1
    const { everyMs } = this.#options
    const asked = retryAfterMs(error) ?? 0
    const backoff = backoffMs(this.#failures[during], { baseMs: Math.min(1000, everyMs), maxMs: everyMs })
    // Who is asked to wait does, but not until the sandbox is gone.
    const left = this.#endsAt === undefined ? everyMs : Math.max(0, this.#endsAt - this.#clock.now())
    const retryInMs = Math.max(backoff, Math.min(asked, left / 2))
    this.#tell(
      () => this.#options.onError?.(error, { during, failures: this.#failures[during], retryInMs }),
      true,
    )
    return retryInMs
  }

  /** A listener that throws must end neither the loop nor the program. */
  #tell(listener: () => void, last = false): void {
    try {
      listener()
    } catch (error) {
      if (!last) this.#tell(() => this.#options.onError?.(error, listenerFailure), true)
    }
  }

  /** Given up when it takes too long or all is over: a call that never answers would be the last beat. */
  #within<T>(ms: number, what: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { provider, sandboxId } = this.#sandbox
    const hint = 'It is tried again. Raise beatTimeoutMs, or autoSnapshot.timeoutMs, if it is only slow.'
    const { clock } = this.#options
    return within({ ms, clock, signal: this.#over.signal, what, provider, sandboxId, hint }, work)
  }

  async #rest(ms: number): Promise<void> {
    const until = this.#clock.now() + ms
    while (!this.#asked && !this.#over.signal.aborted) {
      const left = until - this.#clock.now()
      if (left <= 0) return
      await new Promise<void>((resolve) => {
        const cancel = this.#options.clock.after(Math.min(left, tickMs), resolve)
        this.#wake = () => {
          cancel()
          resolve()
        }
      })
    }
  }
}

const endings: Partial<Record<SandboxStatus, Reason>> = {
  stopped: 'stopped',
  archived: 'stopped',
  failed: 'failed',
  destroyed: 'destroyed',
}

const listenerFailure: BeatFailure = { during: 'beat', failures: 0, retryInMs: 0 }
