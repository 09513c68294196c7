import type { Context } from '../context.ts'

const dayMs = 24 * 60 * 60_000
/** How long a destroyed sandbox is listed, and how many of one scope. */
const keepMs = 30 * dayMs
const most = 1_000

/** Forgets sandboxes that were destroyed long ago. One process does this, once a day. */
export async function forgetDestroyed({ store, now }: Pick<Context, 'store' | 'now'>): Promise<void> {
  const at = now()
  const last = Number((await store.facts.get('pruned_at')) ?? 0)
  // A clock that was set back must not stop this for years.
  if (Math.abs(at - last) < dayMs) return
  await store.sandboxes.prune({ before: at - keepMs, most })
  await store.facts.put('pruned_at', String(at))
}
