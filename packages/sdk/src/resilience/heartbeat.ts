import { SandboxError } from '../errors.ts'
import { onAbort } from '../shared/calls/abort.ts'
import { backoffMs, retryAfterMs } from '../shared/calls/backoff.ts'
import type { Clock } from '../shared/calls/clock.ts'
import type { CallOptions, SandboxCore, SandboxInfo, SandboxStatus } from '../spec/index.ts'
import type { Beat, BeatFailure, KeepAlive, KeepAliveEnd } from './keep-alive.ts'
import { SteadyClock } from './steady-clock.ts'
import { within } from './time-limit.ts'

export interface HeartbeatOptions {
  readonly putOff: (ms: number, call: CallOptions) => Promise<void>
  /** The sandbox only stops when idle: every beat counts as use, and does not move a fixed end. */
  readonly idle: boolean
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

/** Timers may stand still while a machine sleeps, so the time is checked at least this often. */
const tickMs = 10_000

/**
 * One loop: beat, save if the end is near, rest. `stop()` and the signal fire `#over`, which cancels the pending call
 * or the rest, and the loop ends.
 * A provider that ignores signals may continue an abandoned call. The next call of its kind waits for it, a beat only
 * as long as the sandbox allows.
 *
 * `#endsAt` is the best known end of the sandbox: reported by the provider, else promised by the last extension, else
 * one lease after the start. It is on the steady clock.
 */
export class Heartbeat implements KeepAlive {
  readonly ended: Promise<KeepAliveEnd>
  readonly #sandbox: SandboxCore
  readonly #options: HeartbeatOptions
  readonly #clock: SteadyClock
  readonly #deadline: number
  readonly #over = new AbortController()
  #reason: Reason = 'closed'
  #endsAt: number | undefined
  /** The end for which the disk is already saved, and the end that was reported as not extendable. */
  #savedFor: number | undefined
  #cappedAt: number | undefined
  #snapshotId: string | undefined
  #failures = { beat: 0, snapshot: 0 }
  /** The newest call of each kind, until it has really ended. */
  #pending: { beat?: Promise<void>; snapshot?: Promise<void> } = {}
  #error: unknown
  #wake: () => void = () => {}
  #asked = false
  #waiting: Array<() => void> = []

  constructor(sandbox: SandboxCore, options: HeartbeatOptions) {
    this.#sandbox = sandbox
    this.#options = options
    this.#clock = new SteadyClock(options.clock)
    const now = this.#clock.now()
    this.#deadline = now + options.maxMs
    this.#endsAt = now + Math.min(options.leaseMs, options.maxMs)
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
    const result = { reason: this.#reason, snapshotId: this.#snapshotId }
    return this.#error === undefined ? result : { ...result, error: this.#error }
  }

  /** Checks the sandbox, extends it if its end is near, and returns how long to rest. */
  async #beatOnce(): Promise<number> {
    const { beatTimeoutMs } = this.#options
    await this.#awaitAbandonedBeat()
    if (this.#over.signal.aborted) return 0
    try {
      const beat = await this.#within('beat', beatTimeoutMs, (signal) => this.#look(signal))
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

  /** Undefined if there is nothing to keep alive now. */
  async #look(signal: AbortSignal): Promise<Beat | undefined> {
    const { leaseMs, idle } = this.#options
    let info = await this.#sandbox.info({ signal })
    if (!this.#isKeptAlive(info)) return undefined
    const now = this.#note(info)
    const wantedMs = Math.min(leaseMs, this.#deadline - now)
    const isNear = idle || info.expiresAt === undefined || this.#endsAt! - now < wantedMs
    const extended = wantedMs >= 1 && isNear
    if (extended && !(await this.#extend(Math.ceil(wantedMs), signal))) return undefined
    if (idle) this.#endsAt = soonest(info.expiresAt?.getTime(), this.#deadline)
    else if (extended) {
      this.#endsAt = now + wantedMs
      // The end that the provider reports takes precedence over the promised one.
      if (info.expiresAt !== undefined) {
        info = await this.#sandbox.info({ signal })
        if (!this.#isKeptAlive(info)) return undefined
        this.#note(info)
        this.#checkMoved(info, now + wantedMs)
      }
    }
    return { extended, expiresAt: info.expiresAt }
  }

  /** False if the sandbox was stopped or paused after the check. */
  async #extend(ms: number, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#options.putOff(ms, { signal })
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_running') && !this.#isKeptAlive(await this.#sandbox.info({ signal })))
        return false
      throw error
    }
  }

  /** Whether a sandbox in this state is kept alive. Ends the loop if the state is final. */
  #isKeptAlive({ status, expiresAt }: SandboxInfo): boolean {
    const over = endings[status]
    if (over) this.#end(over)
    // A paused sandbox does not age: an earlier promise or estimate is void.
    if (status === 'paused') this.#endsAt = expiresAt?.getTime()
    return !over && status !== 'paused'
  }

  #note({ expiresAt }: SandboxInfo): number {
    if (expiresAt !== undefined) this.#endsAt = expiresAt.getTime()
    return this.#clock.now()
  }

  /** A provider that reports success but does not move the end has reached a limit, which is reported. */
  #checkMoved({ expiresAt }: SandboxInfo, wanted: number): void {
    const end = expiresAt?.getTime()
    const short = end === undefined ? 0 : wanted - end
    if (end === undefined || short <= Math.max(2000, this.#options.leaseMs / 10) || end === this.#cappedAt)
      return
    this.#cappedAt = end
    throw new SandboxError(
      'quota_exceeded',
      `The sandbox ends at ${expiresAt!.toISOString()}: the provider did not extend its lifetime.`,
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
      this.#pending.snapshot === undefined &&
      !this.#isSaved() &&
      this.#endsAt - this.#clock.now() <= this.#options.save.beforeMs
    )
  }

  /** One snapshot per end, also if the provider reports the end slightly differently each time. */
  #isSaved(): boolean {
    return this.#savedFor !== undefined && this.#endsAt! - this.#savedFor <= this.#options.save!.beforeMs
  }

  async #save(): Promise<number> {
    const { take, timeoutMs } = this.#options.save!
    const endsAt = this.#endsAt
    try {
      await this.#within('snapshot', timeoutMs, async (signal) => {
        const snapshotId = await take({ signal })
        // Counts also if the call was abandoned meanwhile: the snapshot exists.
        this.#snapshotId = snapshotId
        this.#savedFor = endsAt
        this.#failures.snapshot = 0
        this.#tell(() => this.#options.onSnapshot?.(snapshotId))
      })
      return this.#options.everyMs
    } catch (error) {
      return this.#failed('snapshot', error)
    }
  }

  /** Limits the rest so that there is time to save. */
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
    // Honours the requested wait, but not beyond the end of the sandbox.
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

  /** Abandons the call on timeout or at the end: a call that never answers would block the loop. */
  #within<T>(kind: BeatFailure['during'], ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { provider, sandboxId } = this.#sandbox
    const hint = 'It is retried. If it is only slow, raise beatTimeoutMs or autoSnapshot.timeoutMs.'
    const { clock } = this.#options
    const what = `The ${kind}`
    return within({ ms, clock, signal: this.#over.signal, what, provider, sandboxId, hint }, (signal) => {
      const call = work(signal)
      const landed = call
        .catch(() => {})
        .then(() => {
          if (this.#pending[kind] === landed) delete this.#pending[kind]
        })
      this.#pending[kind] = landed
      return call
    })
  }

  /** Waits for an abandoned beat that still runs, for half of the remaining time, so that the sandbox is not lost. */
  async #awaitAbandonedBeat(): Promise<void> {
    const { beat } = this.#pending
    if (!beat) return
    const { clock, leaseMs } = this.#options
    const left = this.#endsAt === undefined ? leaseMs : Math.max(0, this.#endsAt - this.#clock.now())
    const ms = Math.min(left / 2, this.#untilSave())
    await within({ ms, clock, signal: this.#over.signal, what: 'The previous beat' }, () => beat).catch(
      () => {},
    )
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

function soonest(...times: Array<number | undefined>): number | undefined {
  const least = Math.min(...times.map((time) => time ?? Infinity))
  return least === Infinity ? undefined : least
}

const listenerFailure: BeatFailure = { during: 'beat', failures: 0, retryInMs: 0 }
