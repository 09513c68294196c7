import type { Daemon } from '../../packages/daemon/src/index.ts'
import { leftoversOf } from '../../packages/engine/src/provider/test-helper.ts'

/** What is left on this machine of a session's sandbox, which has an id of its own. */
export async function leftoversOfSession(daemon: Daemon, sessionId: string): Promise<string[]> {
  const session = await daemon.sessions.context.store.sessions.get(sessionId)
  if (!session?.sandbox_id) throw new Error(`The session ${sessionId} never had a sandbox.`)
  return leftoversOf(session.sandbox_id)
}
