import { SandboxError } from '@sandkasten/sdk'
import { type Context, sandboxesOf } from '../context.ts'
import { toJson } from '../store/index.ts'

/** Connects a thread to another sandbox. Its agent begins a new session there. */
export async function connect(context: Context, threadId: string, sandbox: string): Promise<void> {
  const { store, now } = context
  const thread = await store.threads.get(threadId)
  if (!thread || thread.state === 'ended')
    throw new SandboxError('not_found', 'This thread has no conversation.')
  if ((await store.turns.open(threadId)).length > 0)
    throw new SandboxError('conflict', 'The agent is at work in this thread.', {
      hint: 'Wait for the answer, or abort it.',
    })
  const { name } = await sandboxesOf(context, thread).attach(threadId, sandbox)
  await store.threads.update(
    threadId,
    {
      ...{ state: 'ready', choice: toJson({ existing: name }), sandbox: name, fork_snapshot: null, due: 0 },
      ...{ incarnation: null, session_id: null, directory: null, base_commit: null },
      ...{ error_message: null, error_hint: null },
    },
    now(),
  )
}
