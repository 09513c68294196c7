import { AsyncLocalStorage } from 'node:async_hooks'
import { supports } from '../core/supports.ts'
import { type KeepAlive, type KeepAliveOptions, keepAlive } from '../resilience/index.ts'
import { override } from '../shared/override.ts'
import type { SandboxActivity, SandboxCore, SandboxLifetime, SandboxSnapshots } from '../spec/index.ts'

export interface ExecutorKeepAliveOptions
  extends Pick<KeepAliveOptions, 'leaseMs' | 'everyMs' | 'onError' | 'clock'> {
  /** After this time without a call, the sandbox is left to its end. Default 15 minutes. */
  idleMs?: number
  /** Save the disk when the end is near and cannot be moved. The next sandbox starts from it. Default false. */
  autoSnapshot?: boolean
}

/** keepAlive() checks which of these abilities the sandbox has. */
type Beaten = SandboxCore & SandboxLifetime & SandboxActivity & SandboxSnapshots

const defaultIdleMs = 15 * 60_000

/**
 * Keeps a sandbox alive while its conversation uses it. After an idle time, the next call starts it again.
 * Beats run in the async context of the newest call, because on Vercel that decides which request's token is sent.
 */
export class KeptAlive {
  readonly #sandbox: Beaten
  readonly #options: ExecutorKeepAliveOptions
  readonly #onSnapshot: (snapshotId: string) => void
  #keeper: KeepAlive | undefined
  #inNewestCall: <T>(work: () => T) => T = (work) => work()
  #stopped = false
  #calls = 0
  #usedAt = 0

  constructor(
    sandbox: SandboxCore,
    options: ExecutorKeepAliveOptions,
    onSnapshot: (snapshotId: string) => void,
  ) {
    const { info, extendTimeout, refreshActivity, snapshot } = sandbox as Beaten
    const inContext =
      <A extends unknown[], R>(method: (...args: A) => R) =>
      (...args: A): R =>
        this.#inNewestCall(() => method.apply(sandbox, args))
    this.#sandbox = override(sandbox as Beaten, {
      info: inContext(info),
      extendTimeout: inContext(extendTimeout),
      refreshActivity: inContext(refreshActivity),
      snapshot: inContext(snapshot),
    })
    this.#options = options
    this.#onSnapshot = onSnapshot
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#calls += 1
    this.#inNewestCall = AsyncLocalStorage.snapshot()
    this.#start()
    try {
      return await work()
    } finally {
      this.#calls -= 1
      this.#usedAt = this.#now()
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#keeper?.stop()
  }

  #start(): void {
    if (this.#stopped || this.#keeper) return
    const { idleMs = defaultIdleMs, ...options } = this.#options
    const keeper = keepAlive(this.#sandbox, {
      ...options,
      onSnapshot: this.#onSnapshot,
      onBeat: () => {
        if (this.#calls === 0 && this.#now() - this.#usedAt >= idleMs) void keeper.stop()
      },
    })
    this.#keeper = keeper
    void keeper.ended.then(() => {
      if (this.#keeper === keeper) this.#keeper = undefined
    })
  }

  #now(): number {
    return this.#options.clock?.now() ?? Date.now()
  }
}

/** Whether this sandbox has an end that can be moved. */
export function canKeepAlive(sandbox: SandboxCore): boolean {
  return supports(sandbox, 'lifetime') || supports(sandbox, 'activity')
}
