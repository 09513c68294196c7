import { supports, unsupported } from '../core/supports.ts'
import { checkKnown, checkMs, checkName, invalid } from '../core/validate.ts'
import { type Clock, realClock } from '../shared/calls/clock.ts'
import type {
  AbilityLevel,
  CallOptions,
  Capabilities,
  Offers,
  SandboxActivity,
  SandboxCore,
  SandboxLifetime,
  SnapshotOptions,
} from '../spec/index.ts'
import { Heartbeat, type HeartbeatOptions } from './heartbeat.ts'

export interface KeepAliveOptions<C extends Capabilities = Capabilities> extends CallOptions {
  /**
   * After each beat the sandbox lives at least this long, also if this program dies. Default 5 minutes. Without the
   * ability `lifetime` the provider's idle time applies.
   */
  leaseMs?: number
  /** The interval of checks. Default: a third of the lease, at most a minute. */
  everyMs?: number
  /** The total time limit; afterwards the sandbox is left to its end. Default: unlimited. */
  maxMs?: number
  /**
   * Save the disk if the end is near and cannot be extended: `maxMs`, a plan's limit, a failing provider. Some
   * providers stop a sandbox to save it.
   */
  autoSnapshot?: Offers<C, 'snapshot'> extends true ? boolean | AutoSnapshotOptions : false
  onBeat?: (beat: Beat) => void
  /** Called for a failed beat or snapshot. It is retried with growing delays; a beat never throws. */
  onError?: (error: unknown, failure: BeatFailure) => void
  onSnapshot?: (snapshotId: string) => void
  /** The time limit of one check. Default: a third of the lease, at most 30 seconds. */
  beatTimeoutMs?: number
  /** For tests: a `ManualClock`. */
  clock?: Clock
}

export interface AutoSnapshotOptions extends Pick<SnapshotOptions, 'name'> {
  /** How long before the end. Default: a third of the lease, at most a minute. */
  beforeMs?: number
  /** The time limit of one snapshot. Default 10 minutes. */
  timeoutMs?: number
}

export interface Beat {
  /** Whether the lifetime was extended because the end was near. Always true if the sandbox only stops when idle. */
  readonly extended: boolean
  /** When the sandbox ends now, if the provider reports it. */
  readonly expiresAt?: Date
}

export interface BeatFailure {
  readonly during: 'beat' | 'snapshot'
  /** Consecutive failures, including this one. */
  readonly failures: number
  readonly retryInMs: number
}

export interface KeepAliveEnd {
  /**
   * The sandbox is `stopped`, `destroyed` or `failed`, or another caller restarted it (`interrupted`); or the
   * caller's signal fired (`aborted`), `maxMs` passed (`limit`), or `stop()` was called (`closed`).
   */
  readonly reason: 'stopped' | 'destroyed' | 'failed' | 'interrupted' | 'aborted' | 'limit' | 'closed'
  readonly snapshotId?: string
  /** The error of the last beat, if it failed. */
  readonly error?: unknown
}

export interface KeepAlive extends AsyncDisposable {
  /** Resolves with the reason when the heartbeat ends. Never rejects. */
  readonly ended: Promise<KeepAliveEnd>
  /** Checks now. Resolves when that is done; joins a pending check. */
  beat(): Promise<void>
  /** Cancels the pending call and makes no further ones. Does not affect the sandbox. */
  stop(): Promise<KeepAliveEnd>
}

/**
 * Keeps a sandbox from ending by itself while this program needs it.
 *
 *     await using _ = keepAlive(sandbox, { onError: console.error })
 *
 * Each beat checks when the sandbox ends, which does not count as activity, and extends it only if less than the
 * lease is left. If this program dies, the sandbox ends within one lease. If a sandbox only stops when idle, each
 * beat counts as use.
 * Beats never overlap. The timers do not keep a process alive, and it works without Node.
 */
export function keepAlive<S extends SandboxCore & (SandboxLifetime | SandboxActivity)>(
  sandbox: S & CanBeKept<S['capabilities']>,
  options: KeepAliveOptions<NoInfer<S>['capabilities']> = {},
): KeepAlive {
  checkKnown(options, optionNames, 'keepAlive()')
  const leaseMs = checkMs(options.leaseMs ?? 5 * 60_000, 'leaseMs')
  const everyMs = checkMs(options.everyMs ?? Math.min(leaseMs / 3, 60_000), 'everyMs')
  if (everyMs > leaseMs / 2)
    throw invalid(
      '`everyMs` is more than half of `leaseMs`.',
      'A single failed beat would end the sandbox: use a longer lease, or a shorter interval.',
      { leaseMs, everyMs },
    )
  return new Heartbeat(sandbox, {
    ...puttingOff(sandbox),
    leaseMs,
    everyMs,
    beatTimeoutMs: checkMs(options.beatTimeoutMs ?? Math.min(leaseMs / 3, 30_000), 'beatTimeoutMs'),
    maxMs: options.maxMs === undefined ? Infinity : checkMs(options.maxMs, 'maxMs'),
    save: savingOf(sandbox, options.autoSnapshot, leaseMs),
    signal: options.signal,
    onBeat: options.onBeat,
    onError: options.onError,
    onSnapshot: options.onSnapshot,
    clock: options.clock ?? realClock,
  })
}

/** Demands one of the two abilities, unless nothing is known about the provider. */
type CanBeKept<C extends Capabilities> = true extends Offers<C, 'lifetime'> | Offers<C, 'activity'>
  ? unknown
  : { readonly capabilities: { readonly lifetime: AbilityLevel } | { readonly activity: AbilityLevel } }

function puttingOff(sandbox: SandboxCore): Pick<HeartbeatOptions, 'putOff' | 'idle'> {
  if (supports(sandbox, 'lifetime'))
    return { putOff: (ms, call) => sandbox.extendTimeout(ms, call), idle: false }
  if (supports(sandbox, 'activity')) return { putOff: (_, call) => sandbox.refreshActivity(call), idle: true }
  throw unsupported(sandbox, 'lifetime')
}

function savingOf(
  sandbox: SandboxCore,
  wanted: boolean | AutoSnapshotOptions | undefined,
  leaseMs: number,
): HeartbeatOptions['save'] {
  if (!wanted) return undefined
  if (!supports(sandbox, 'snapshot')) throw unsupported(sandbox, 'snapshot')
  const options = wanted === true ? {} : wanted
  checkKnown(options, ['beforeMs', 'timeoutMs', 'name'], '`autoSnapshot`')
  const beforeMs = checkMs(options.beforeMs ?? Math.min(leaseMs / 3, 60_000), 'autoSnapshot.beforeMs')
  if (beforeMs > leaseMs / 2)
    throw invalid(
      '`autoSnapshot.beforeMs` is more than half of `leaseMs`.',
      'Use a longer lease: after every beat the end must be further away than beforeMs.',
      { leaseMs, beforeMs },
    )
  const name = options.name === undefined ? {} : { name: checkName(options.name) }
  return {
    beforeMs,
    timeoutMs: checkMs(options.timeoutMs ?? 10 * 60_000, 'autoSnapshot.timeoutMs'),
    take: async (call) => (await sandbox.snapshot({ ...call, ...name })).snapshotId,
  }
}

const optionNames = [
  'leaseMs',
  'everyMs',
  'maxMs',
  'autoSnapshot',
  'onBeat',
  'onError',
  'onSnapshot',
  'beatTimeoutMs',
  'clock',
  'signal',
] satisfies Array<keyof KeepAliveOptions>
