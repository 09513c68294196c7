import type { SandboxRecord, Scope } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import type { Context } from '../context.ts'

/** Operations of users on a sandbox by its name. The caller has checked their rights. */
export class SandboxOperations {
  readonly #context: Context

  constructor(context: Context) {
    this.#context = context
  }

  async list(
    scope: Scope,
    { refresh = false }: { refresh?: boolean } = {},
  ): Promise<readonly SandboxRecord[]> {
    return this.#in(scope).list(refresh ? { refresh: true } : {})
  }

  /** `settle` waits for agents of a thread that are about to leave: their last answer has ended. */
  async stop(
    scope: Scope,
    sandbox: string,
    settle: (threadId: string) => Promise<void>,
  ): Promise<SandboxRecord> {
    const sandboxes = this.#in(scope)
    const { threads } = await sandboxes.get(sandbox)
    await Promise.all(threads.map(settle))
    try {
      return await sandboxes.stop(sandbox)
    } catch (error) {
      if (!SandboxError.is(error, 'conflict')) throw error
      throw new SandboxError('conflict', `“${sandbox}” is in use. Stopping it would end what runs there.`, {
        hint: 'Wait until the agents in it are done, or abort them.',
        cause: error,
      })
    }
  }

  async start(scope: Scope, sandbox: string): Promise<SandboxRecord> {
    return (await this.#in(scope).start(sandbox)).record
  }

  snapshot(scope: Scope, sandbox: string): Promise<{ readonly snapshotId: string }> {
    return this.#in(scope).snapshot(sandbox)
  }

  /**
   * Destroys the sandbox, and archives its threads. Their answers that are at work end first. The threads are marked
   * before, so a crash in between leaves archived threads, and never threads that seem to work without a sandbox.
   */
  async destroy(
    scope: Scope,
    sandbox: string,
    end: (threadId: string) => Promise<void>,
  ): Promise<{ readonly threads: readonly string[] }> {
    const { store, chat, now } = this.#context
    const sandboxes = this.#in(scope)
    const { threads } = await sandboxes.get(sandbox)
    const ours: string[] = []
    for (const threadId of threads)
      if (await store.threads.get(threadId)) {
        ours.push(threadId)
        await end(threadId)
      }
    await sandboxes.destroy(sandbox, { force: true })
    for (const threadId of ours) {
      await store.threads.update(threadId, { state: 'archived', due: 0 }, now())
      const key = `destroyed:${sandbox}`
      const level = 'warning'
      const text = `“${sandbox}” was destroyed. To go on, connect this thread to another sandbox.`
      await store.notices.put({ thread_id: threadId, notice_key: key, level, text, created_at: now() })
      try {
        // Before the thread is archived, because a message may open it again.
        await chat.notify({ key, threadId, level, text })
        await store.notices.shown(threadId, key)
        await chat.archive(threadId)
      } catch {
        // The chat is away. The worker shows the notice later.
      }
    }
    return { threads: ours }
  }

  #in(scope: Scope) {
    return this.#context.registry.in({ ...scope, appId: this.#context.sandboxAppId })
  }
}
