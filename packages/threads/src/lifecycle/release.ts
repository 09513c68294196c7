import type { SandboxRecord } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import { type Context, sandboxesOf } from '../context.ts'
import { labelOf } from '../conversations/sandbox.ts'
import type { ThreadRow } from '../store/index.ts'

/**
 * After a thread was archived or has ended: stops its sandbox if no other thread uses it. What was made for a thread
 * that ended before it could use it is destroyed.
 */
export async function release(
  context: Context,
  thread: ThreadRow,
  { token, signal }: { token: number; signal: AbortSignal },
): Promise<void> {
  const { store, now } = context
  const sandboxes = sandboxesOf(context, thread)
  const hasEnded = thread.state === 'ended'
  try {
    const record = await ownOf(context, thread)
    if (record) {
      const isUnused = await isOnlyOf(context, thread, record)
      const wasNeverUsed = thread.incarnation === null && record.label === labelOf(thread)
      if (hasEnded && wasNeverUsed && isUnused)
        await sandboxes.destroy(record.name, { threadId: thread.thread_id, signal })
      else if (isUnused && record.status === 'running')
        await sandboxes.stop(record.name, { threadId: thread.thread_id, signal })
    }
    if (hasEnded) await sandboxes.detach(thread.thread_id)
  } catch (error) {
    // In use by others, gone already, or a provider that cannot stop: nothing to do here.
    if (!SandboxError.is(error, 'conflict', 'not_found', 'unsupported')) throw error
  }
  await store.threads.update(thread.thread_id, { due: 0 }, now(), { token })
}

/** The sandbox that the thread uses, or that was made for it. */
async function ownOf(context: Context, thread: ThreadRow): Promise<SandboxRecord | undefined> {
  const sandboxes = sandboxesOf(context, thread)
  const attached = await sandboxes.ofThread(thread.thread_id)
  if (attached || thread.sandbox === null) return attached
  try {
    const record = await sandboxes.get(thread.sandbox)
    return record.label === labelOf(thread) ? record : undefined
  } catch (error) {
    if (SandboxError.is(error, 'not_found')) return undefined
    throw error
  }
}

async function isOnlyOf({ store }: Context, thread: ThreadRow, record: SandboxRecord): Promise<boolean> {
  for (const id of record.threads) {
    if (id === thread.thread_id) continue
    const other = await store.threads.get(id)
    // A thread of another program counts as one that uses the sandbox.
    if (!other || (other.state !== 'archived' && other.state !== 'ended')) return false
  }
  return true
}
