import { SandboxError } from '@sandkasten/sdk'
import type { Services } from '../../http/services.ts'
import type { Caller } from '../../keys/index.ts'
import type { Session } from '../../sessions/index.ts'

/** The caller's live session on this daemon. Throws `none()` for any other session, so callers cannot tell why. */
export async function liveSession(
  { sessions }: Services,
  caller: Caller,
  id: string,
  none: () => SandboxError,
): Promise<Session> {
  const session = await sessions.use.findHere(caller, id).catch((error: unknown) => {
    throw SandboxError.is(error, 'not_found', 'conflict') ? none() : error
  })
  if (session.live === 0) throw none()
  return session
}

/** Finishes a new session that no client knows of yet. When a step fails, the session is destroyed. */
export async function finished<T>(
  { sessions, log }: Services,
  caller: Caller,
  { id }: Session,
  work: () => Promise<T>,
  gone?: AbortSignal,
): Promise<T> {
  try {
    const result = await work()
    // The client disconnected and never learned of the session, so destroy it.
    if (gone?.aborted) throw new SandboxError('aborted', 'The client disconnected.')
    return result
  } catch (error) {
    await sessions
      .destroy(caller, id)
      .catch((cause) =>
        log.warn({ session: id, err: cause }, 'cannot remove a session; reconciliation will retry'),
      )
    throw error
  }
}

/** Reads all pages of a list. */
export async function everything<T extends { created_at: number; id: string }>(
  list: (options: { limit: number; after?: { createdAt: number; id: string } }) => Promise<T[]>,
): Promise<T[]> {
  const batch = 500
  const all: T[] = []
  for (;;) {
    const last = all.at(-1)
    const after = last && { createdAt: last.created_at, id: last.id }
    const some = await list({ limit: batch, after })
    all.push(...some)
    if (some.length < batch) return all
  }
}
