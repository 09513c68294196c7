import type { Hold } from '@sandkasten/registry'
import { type CallOptions, SandboxError } from '@sandkasten/sdk'
import { type Context, sandboxesOf } from '../context.ts'
import type { ThreadRow } from '../store/index.ts'

export interface InFolder {
  readonly hold: Hold
  readonly thread: ThreadRow
  /** The folder of the thread in the sandbox. */
  readonly cwd: string
  readonly signal: AbortSignal
}

/** Runs work in the folder of a thread, while its sandbox is held. */
export async function inFolder<T>(
  context: Context,
  threadId: string,
  { purpose, signal: given }: CallOptions & { purpose: string },
  work: (place: InFolder) => Promise<T>,
): Promise<T> {
  const thread = await context.store.threads.get(threadId)
  if (!thread) throw new SandboxError('not_found', 'This thread has no conversation.')
  const sandboxes = sandboxesOf(context, thread)
  const record = await sandboxes.ofThread(threadId)
  if (!record)
    throw new SandboxError('not_running', 'This thread has no sandbox.', {
      hint: 'Wait until it is made, or connect the thread to another one.',
    })
  await using hold = await sandboxes.hold(record.name, { threadId, purpose, signal: given })
  const signal = given ? AbortSignal.any([given, hold.signal]) : hold.signal
  const cwd = thread.directory ?? record.directory ?? hold.handle.workdir
  return await work({ hold, thread, cwd, signal })
}
