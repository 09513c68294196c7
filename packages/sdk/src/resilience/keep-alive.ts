import { supports, unsupported } from '../core/supports.ts'
import { checkKnown, checkMs, checkName, invalid } from '../core/validate.ts'
import { type Clock, realClock } from '../shared/clock.ts'
import type {
  CallOptions,
  SandboxActivity,
  SandboxCore,
  SandboxLifetime,
  SandboxSnapshots,
  SnapshotOptions,
} from '../spec/index.ts'
import { Heartbeat, type HeartbeatOptions } from './heartbeat.ts'

export interface KeepAliveOptions<S = SandboxLifetime & SandboxSnapshots> extends CallOptions {
  /** From each beat on the sandbox lives at least this long, also if this program dies. Default 5 minutes. Without `lifetime` the provider's idle time is what counts. */
  leaseMs?: number
  /** How often to look. Default: a third of the lease, at most a minute. */
  everyMs?: number
  /** Not longer than this in all; then the sandbox is left to its end. Default: for ever. */
  maxMs?: number
  /** Save the disk when the end is near and cannot be put off: `maxMs`, a plan's limit, a provider that fails. Some providers stop a sandbox to save it. */
  autoSnapshot?: S extends SandboxSnapshots ? boolean | AutoSnapshotOptions : false
  onBeat?: (beat: Beat) => void
  /** A beat, or a snapshot, that failed. It is tried again, later each time; a beat never throws. */
  onError?: (error: unknown, failure: BeatFailure) => void
  onSnapshot?: (snapshotId: string) => void
  /** A look that takes longer than this has failed. Default: the lease's third, at most 30 seconds. */
  beatTimeoutMs?: number
  /** For tests: a `ManualClock`. */
  clock?: Clock
}

export interface AutoSnapshotOptions extends Pick<SnapshotOptions, 'name'> {
  /** How long before the end. Default: a third of the lease, at most a minute. */
  beforeMs?: number
  /** A snapshot that takes longer than this has failed. Default 10 minutes. */
  timeoutMs?: number
}

/** What a beat found and did. */
export interface Beat {
  /** Whether the end was too near, and has been put off; where a sandbox only stops when idle, always. */
  readonly extended: boolean
  /** When the sandbox ends now, as far as the provider tells. */
  readonly expiresAt?: Date
}

export interface BeatFailure {
  readonly during: 'beat' | 'snapshot'
  /** How many in a row, this one included. */
  readonly failures: number
  /** When it is tried again. */
  readonly retryInMs: number
}

export interface KeepAliveEnd {
  /**
   * The sandbox is `stopped`, `destroyed`, `failed` or was started anew by somebody else (`interrupted`); or the caller's
   * signal fired (`aborted`), `maxMs` has passed (`limit`), or `stop()` was called (`closed`).
   */
  readonly reason: 'stopped' | 'destroyed' | 'failed' | 'interrupted' | 'aborted' | 'limit' | 'closed'
  /** The last snapshot that was taken. */
  readonly snapshotId?: string
  /** Why the last beat failed, if it did. */
  readonly error?: unknown
}

export interface KeepAlive extends AsyncDisposable {
  /** When it is over, and why. Never rejects. */
  readonly ended: Promise<KeepAliveEnd>
  /** Looks now. Resolves when that is done; joins a look that is under way. */
  beat(): Promise<void>
  /** Cancels the call that is under way; none is made any more. The sandbox is left as it is. */
  stop(): Promise<KeepAliveEnd>
}

/**
 * Keeps a sandbox from ending by itself, for as long as this program wants it.
 *
 *     await using _ = keepAlive(sandbox, { onError: console.error })
 *
 * Each beat looks when the sandbox ends (looking is not activity) and puts that off only if less than the lease is left, so
 * nothing adds up, and when this program is gone the sandbox ends within one lease. Where a sandbox only stops when nobody uses
 * it, each beat counts as use. One beat at a time. It holds no process alive and loads where there is no Node.
 */
export function keepAlive<S extends SandboxCore & (SandboxLifetime | SandboxActivity)>(
  sandbox: S,
  options: KeepAliveOptions<NoInfer<S>> = {},
): KeepAlive {
  checkKnown(options, optionNames, 'keepAlive()')
  const leaseMs = checkMs(options.leaseMs ?? 5 * 60_000, 'leaseMs')
  const everyMs = checkMs(options.everyMs ?? Math.min(leaseMs / 3, 60_000), 'everyMs')
  if (everyMs > leaseMs / 2)
    throw invalid(
      '`everyMs` is more than half of `leaseMs`.',
      'One beat that fails would end the sandbox: use a longer lease, or beat more often.',
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
      'Use a longer lease: the end must be farther away than that after every beat.',
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
