import { readFileSync } from 'node:fs'
import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import { type Context, instanceLabel, type Sandbox } from './context.ts'
import { createOptions, type Plan, planOf } from './plan.ts'

/** Marks a pooled sandbox with the process that owns it. */
export const poolLabel = 'sandkasten.pool'

/** After this long without a create, the pool is filled up. */
const quietMs = 100

/**
 * Creates sandboxes before a request needs them. They belong to this process and have no row. After a crash, the next
 * daemon's reconciliation removes them, because their owner is gone. `take` removes a sandbox from the list
 * synchronously, so two sessions never get the same one. Then it hands over the session's labels, environment and age.
 *
 * Calls may interleave freely. `tend` does not run concurrently with itself.
 */
export class Pool {
  readonly #context: Omit<Context, 'pool'>
  readonly #availableMb: () => number
  readonly #shelves: Shelf[]
  readonly keeper = randomId()
  #tending: Promise<void> | undefined
  #soon: NodeJS.Timeout | undefined
  #closed = false

  constructor(context: Omit<Context, 'pool'>, availableMb: () => number = memoryAvailableMb) {
    this.#context = context
    this.#availableMb = availableMb
    const { config, provider, metrics } = context
    if (config.pool.length > 0 && !provider.handOver)
      throw new SandboxError('unsupported', 'This provider’s sandboxes cannot be kept in a pool.', {
        hint: 'Leave pool out of the configuration.',
      })
    this.#shelves = config.pool.map(({ size, image, network_mode: network, account, ...limits }) => {
      const { cpu_limit: cpu, memory_mb: memoryMb, pids_limit: pids, disk_limit_mb: diskMb } = limits
      const plan = planOf(context, { image, network, account, limits: { cpu, memoryMb, pids, diskMb } })
      return { size, plan, key: keyOf(plan), ready: [] }
    })
    metrics.onRead(() => {
      metrics.clear('sandkasten_pool_ready')
      for (const { plan, ready } of this.#shelves)
        metrics.set('sandkasten_pool_ready', { image: plan.image, account: plan.account ?? '' }, ready.length)
    })
  }

  /** Hands a matching sandbox over to the session. Undefined when there is no match, or when the sandbox has died. */
  async take(
    plan: Plan,
    given: { labels: Record<string, string>; envVars: Readonly<Record<string, string>> },
  ): Promise<Sandbox | undefined> {
    const key = keyOf(plan)
    const shelf = this.#shelves.find((one) => one.key === key && one.ready.length > 0)
    const sandbox = shelf?.ready.shift()
    if (!shelf || !sandbox) return undefined
    // Refill soon when less than half is left; otherwise wait until no creates come in.
    if (shelf.ready.length < shelf.size / 2) this.#tendIn(20)
    else this.#tendIn(quietMs)
    const { provider, log } = this.#context
    try {
      await provider.handOver!(sandbox.sandboxId, given)
      if ((await sandbox.status()) === 'running') return sandbox
    } catch (error) {
      log.warn(
        { sandbox: sandbox.sandboxId, err: error },
        'cannot hand over a sandbox of the pool; it is removed',
      )
    }
    await this.#remove([sandbox])
    return undefined
  }

  /** A later call replaces an earlier one. */
  #tendIn(ms: number): void {
    clearTimeout(this.#soon)
    this.#soon = setTimeout(() => void this.tend(), ms).unref()
  }

  /** Fills the pool one sandbox after another, or empties it while memory is short. */
  tend(): Promise<void> {
    this.#tending ??= this.#tend().finally(() => {
      this.#tending = undefined
    })
    return this.#tending
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#soon)
    await this.#tending
    await this.#empty()
  }

  async #tend(): Promise<void> {
    const { config, log } = this.#context
    for (const shelf of this.#shelves)
      while (!this.#closed && shelf.ready.length < shelf.size) {
        if (this.#availableMb() < config.pool_min_available_mb) return this.#empty()
        try {
          shelf.ready.push(await this.#make(shelf.plan))
        } catch (error) {
          // Sessions are then created without the pool; the next round retries.
          log.warn({ err: error, image: shelf.plan.image }, 'cannot fill the pool')
          return
        }
      }
    if (this.#availableMb() < config.pool_min_available_mb) await this.#empty()
  }

  async #make(plan: Plan): Promise<Sandbox> {
    const { provider, instanceId } = this.#context
    const labels = { [poolLabel]: this.keeper, [instanceLabel]: instanceId }
    const sandbox = (await provider.create(
      createOptions(this.#context, plan, { env: {}, labels }),
    )) as Sandbox
    // Any call opens the connection to the sandbox, so that the first command does not wait for it.
    await sandbox.files.exists('.')
    return sandbox
  }

  async #empty(): Promise<void> {
    await this.#remove(this.#shelves.flatMap(({ ready }) => ready.splice(0)))
  }

  async #remove(sandboxes: readonly Sandbox[]): Promise<void> {
    for (const sandbox of sandboxes)
      await sandbox
        .destroy()
        .catch((error) =>
          this.#context.log.warn(
            { sandbox: sandbox.sandboxId, err: error },
            'cannot remove a sandbox of the pool; the next start removes it',
          ),
        )
  }
}

interface Shelf {
  readonly size: number
  readonly plan: Plan
  readonly key: string
  readonly ready: Sandbox[]
}

/** Sandboxes with the same key are interchangeable. */
function keyOf({ image, cpu, memoryMb, pids, diskMb, network, tmp, user, account = '' }: Plan): string {
  return JSON.stringify([image, cpu, memoryMb, pids, diskMb, network, tmp, user ?? '', account])
}

/** Memory that is available without swapping. Infinite where the system does not report it. */
function memoryAvailableMb(): number {
  try {
    const kilobytes = /^MemAvailable:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]
    return kilobytes === undefined ? Number.POSITIVE_INFINITY : Number(kilobytes) / 1024
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
