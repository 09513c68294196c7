import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { type Clock, sleep } from '../../shared/calls/clock.ts'
import type { FileOperation } from './files.ts'

/** The operations that can fail. `output` is every read of a process's output, including `runCommand`'s. */
export type FaultPoint =
  | FileOperation
  | 'create'
  | 'get'
  | 'find'
  | 'list'
  | 'destroy'
  | 'health'
  | 'info'
  | 'spawn'
  | 'output'
  | 'kill'
  | 'processStatus'
  | 'writeStdin'
  | 'closeStdin'
  | 'getProcess'
  | 'listProcesses'
  | 'openShell'
  | 'getEndpoint'
  | 'stop'
  | 'start'
  | 'pause'
  | 'resume'
  | 'snapshot'
  | 'fork'
  | 'extendTimeout'
  | 'setNetwork'
  | 'listSnapshots'
  | 'deleteSnapshot'

export interface FaultRule {
  on: FaultPoint
  /** The sandbox. Default: any. */
  sandboxId?: string
  /** How many calls pass first. Default 0. */
  after?: number
  /** How many calls are affected. Default 1; `Infinity` for all. */
  times?: number
  /** Delays the call by this time, on the provider's clock. */
  delayMs?: number
  /** The error of the call. A code becomes a SandboxError. */
  error?: SandboxErrorCode | Error
  /** Ends the stream early without an error, like a dropped connection (`output`, `readStream`). */
  cut?: boolean
  /** For calls with a stream: the fault occurs after this many bytes. */
  afterBytes?: number
}

export interface Fault {
  /** How many calls it has affected. */
  readonly hits: number
  remove(): void
}

/** The fault of one call: passes the stream through, and breaks it off where the fault says. */
export interface FaultHit {
  through<T>(items: AsyncIterable<T>): AsyncIterable<T>
}

/** Pending faults. Every operation of the provider checks them. */
export class Faults {
  readonly #clock: Clock
  readonly #rules = new Set<{ rule: FaultRule; seen: number; hits: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(rule: FaultRule): Fault {
    const state = { rule, seen: 0, hits: 0 }
    this.#rules.add(state)
    return {
      get hits() {
        return state.hits
      },
      remove: () => this.#rules.delete(state),
    }
  }

  /** Waits or throws according to the first fault for this operation. */
  async enter(operation: FaultPoint, sandboxId: string | undefined, signal?: AbortSignal): Promise<FaultHit> {
    const rule = this.take(operation, sandboxId)
    if (!rule) return unharmed
    if (rule.delayMs !== undefined) {
      await sleep(this.#clock, rule.delayMs, signal).catch((cause) => {
        throw new SandboxError('aborted', 'The call was cancelled by its AbortSignal.', {
          provider: 'memory',
          cause,
        })
      })
    }
    if (rule.error !== undefined && rule.afterBytes === undefined) throw errorOf(rule)
    const streams = rule.cut || rule.afterBytes !== undefined
    // A write must not end early without an error: a partial file would look complete.
    if (streams && (operation === 'writeFile' || operation === 'appendFile'))
      return { through: (items) => broken(items, { ...rule, cut: false }) }
    return streams ? { through: (items) => broken(items, rule) } : unharmed
  }

  /** The rule for this call, counted as a hit. */
  take(operation: FaultPoint, sandboxId: string | undefined): FaultRule | undefined {
    for (const state of this.#rules) {
      const { rule } = state
      if (rule.on !== operation || (rule.sandboxId !== undefined && rule.sandboxId !== sandboxId)) continue
      state.seen += 1
      if (state.seen <= (rule.after ?? 0) || state.hits >= (rule.times ?? 1)) continue
      state.hits += 1
      return rule
    }
    return undefined
  }
}

/** The items until the fault occurs; then an error or an early end. */
export async function* broken<T>(items: AsyncIterable<T>, rule: FaultRule): AsyncGenerator<T> {
  let left = rule.afterBytes ?? 0
  for await (const item of items) {
    const size = sizeOf(item)
    if (size > left) {
      if (left > 0 && item instanceof Uint8Array) yield item.subarray(0, left) as T
      break
    }
    left -= size
    yield item
  }
  if (!rule.cut || rule.error !== undefined) throw errorOf(rule)
}

const unharmed: FaultHit = { through: (items) => items }

function errorOf(rule: FaultRule): Error {
  if (rule.error instanceof Error) return rule.error
  const code = rule.error ?? 'connection_lost'
  return new SandboxError(code, `The memory provider was told to fail ${rule.on} with ${code}.`, {
    provider: 'memory',
    details: { fault: rule.on },
  })
}

function sizeOf(item: unknown): number {
  if (item instanceof Uint8Array) return item.byteLength
  // A cut never lets the exit event through.
  if ((item as { type?: unknown } | null)?.type === 'exit') return Infinity
  const data = (item as { data?: unknown } | null)?.data
  return data instanceof Uint8Array ? data.byteLength : 0
}
