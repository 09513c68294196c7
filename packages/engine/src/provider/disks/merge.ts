import type { SandboxRecord } from '@sandkasten/sdk/internal'
import type { LayerStore, Snapshots, Trees } from '../../layers/index.ts'
import { extraOf, withExtra } from '../spec.ts'
import type { Sandboxes } from './disks.ts'

/** A deeper stack is merged in the background. */
const MANY_LAYERS = 20
/** A deeper stack is merged before anything else is stacked on it. */
const MOST_LAYERS = 200

export interface MergeParts {
  readonly layers: LayerStore
  readonly snapshots: Snapshots<unknown>
  readonly trees: Trees
  readonly sandboxes: Sandboxes
}

/**
 * Merges deep stacks into one layer. The layer replaces the stack in snapshots and in stopped sandboxes. A running
 * sandbox has the old layers mounted and keeps them. An interrupted merge leaves a layer that no record names.
 */
export class StackMerger {
  readonly #parts: MergeParts
  readonly #merging = new Map<string, Promise<unknown>>()

  constructor(parts: MergeParts) {
    this.#parts = parts
  }

  isDeep(stack: readonly string[]): boolean {
    return stack.length > MANY_LAYERS
  }

  /** `lower` are the folders below the stack: the image. `use` gets the new layer while it is held. */
  async merge<T>(
    stack: readonly string[],
    lower: readonly string[],
    use: (layer: string) => Promise<T>,
  ): Promise<T> {
    const { layers, snapshots, trees } = this.#parts
    const draft = await layers.begin(stack)
    try {
      const folders = stack.map((id) => layers.treeOf(id))
      await trees.squash(draft.tree, folders, lower)
      layers.seal(draft.id)
      draft.keep()
      await layers.sync([draft.id])
      const used = await use(draft.id)
      await snapshots.replaceLayers(stack, [draft.id])
      await this.#replace(stack, draft.id)
      // The old layers may go only when the records that no longer name them survive a power cut.
      await layers.syncAll()
      return used
    } finally {
      await draft.done()
    }
  }

  /** Merges a deep stack in the background. Waits for it only if the stack is nearly too deep to mount. */
  async keepShallow(stack: readonly string[], merge: () => Promise<void>): Promise<void> {
    if (!this.isDeep(stack)) return
    const key = stack.join()
    const work =
      this.#merging.get(key) ??
      merge()
        // A deep stack still works; the next snapshot tries again.
        .catch(() => {})
        .finally(() => this.#merging.delete(key))
    this.#merging.set(key, work)
    if (stack.length > MOST_LAYERS) await work
  }

  async idle(): Promise<void> {
    await Promise.allSettled(this.#merging.values())
  }

  async #replace(stack: readonly string[], layer: string): Promise<void> {
    const { sandboxes } = this.#parts
    for (const record of await sandboxes.records()) {
      if (!standsOn(record, stack)) continue
      await sandboxes.change(record.sandboxId, (now) => {
        if (now.status !== 'stopped' || !standsOn(now, stack)) return now
        const extra = extraOf(now)
        const above = extra.layers.slice(0, extra.layers.length - stack.length)
        return withExtra(now, { ...extra, layers: [...above, layer] })
      })
    }
  }
}

function standsOn(record: SandboxRecord, stack: readonly string[]): boolean {
  const { layers } = extraOf(record)
  return layers.length >= stack.length && layers.slice(layers.length - stack.length).join() === stack.join()
}
