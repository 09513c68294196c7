import type { Context } from '../context.ts'
import { stateOf, thisHolder } from '../leases/index.ts'

interface Sign {
  /** The process, as `holder.ts` writes it. */
  readonly holder: string
  readonly at: number
}

type Shared = Pick<Context, 'store' | 'now'>

/**
 * Tells other processes that this one does due work in a loop. Only a hint for people: leases decide who does what. With
 * several workers, the last one that showed its sign is seen.
 */
export class WorkerSign {
  readonly #context: Shared
  #shownAt = -Infinity
  #shown: string | undefined

  constructor(context: Shared) {
    this.#context = context
  }

  async show(): Promise<void> {
    if (performance.now() - this.#shownAt < renewMs) return
    const { store, now } = this.#context
    const sign = JSON.stringify({ holder: await thisHolder(), at: now() } satisfies Sign)
    await store.facts.put('worker', sign)
    this.#shown = sign
    this.#shownAt = performance.now()
  }

  async remove(): Promise<void> {
    if (this.#shown !== undefined) await this.#context.store.facts.remove('worker', this.#shown)
    this.#shown = undefined
    this.#shownAt = -Infinity
  }
}

/** Whether a process does due work in a loop. */
export async function hasWorker({ store, now }: Shared): Promise<boolean> {
  const sign = parse(await store.facts.get('worker'))
  if (!sign || Math.abs(now() - sign.at) > silentMs) return false
  return (await stateOf(sign.holder)) !== 'dead'
}

function parse(text: string | undefined): Sign | undefined {
  try {
    const { holder, at } = JSON.parse(text ?? '{}') as Partial<Sign>
    return typeof holder === 'string' && typeof at === 'number' ? { holder, at } : undefined
  } catch {
    // A newer version wrote it.
    return undefined
  }
}

const renewMs = 30_000
const silentMs = 2 * 60_000
