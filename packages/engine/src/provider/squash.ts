import type { SandboxRecord } from '@sandkasten/sdk/internal'
import type { LayerStore, Snapshots, Trees } from '../layers/index.ts'
import { extraOf, withExtra } from './spec.ts'

export interface SquashParts {
  readonly layers: LayerStore
  readonly snapshots: Snapshots<unknown>
  readonly trees: Trees
  readonly sandboxes: {
    all(): Promise<SandboxRecord[]>
    change(sandboxId: string, change: (record: SandboxRecord) => SandboxRecord): Promise<void>
  }
}

/**
 * A deep stack as one layer, and that one in its place: in the snapshots that are this stack, and in the sandboxes that stand on it and are stopped.
 * One that runs has the old layers mounted and keeps them; nothing of what anybody still names is taken away. Cut off anywhere, it leaves a
 * layer that nobody names. `use` gets the new layer while it is held.
 */
export async function squash<T>(
  stack: readonly string[],
  ground: readonly string[],
  { layers, snapshots, trees, sandboxes }: SquashParts,
  use: (layer: string) => Promise<T>,
): Promise<T> {
  const draft = await layers.begin(stack)
  try {
    await trees.squash(
      draft.tree,
      stack.map((id) => layers.treeOf(id)),
      ground,
    )
    layers.seal(draft.id)
    draft.keep()
    await layers.sync([draft.id])
    const used = await use(draft.id)
    await snapshots.relayer(stack, [draft.id])
    for (const { sandboxId, ...record } of await sandboxes.all()) {
      if (!standsOn(extraOf({ sandboxId, ...record }).layers, stack)) continue
      await sandboxes.change(sandboxId, (now) => {
        const extra = extraOf(now)
        if (now.status !== 'stopped' || !standsOn(extra.layers, stack)) return now
        const above = extra.layers.slice(0, extra.layers.length - stack.length)
        return withExtra(now, { ...extra, layers: [...above, draft.id] })
      })
    }
    // The old layers may go only when the records that no longer name them are safe.
    await layers.syncAll()
    return used
  } finally {
    await draft.done()
  }
}

function standsOn(layers: readonly string[], stack: readonly string[]): boolean {
  return layers.length >= stack.length && layers.slice(layers.length - stack.length).join() === stack.join()
}
