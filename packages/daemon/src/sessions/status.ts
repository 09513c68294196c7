import { SandboxError } from '@sandkasten/sdk'
import type { SessionStatus } from '../store/index.ts'
import type { Context, Session } from './context.ts'

/** Statuses of a session that can still be used, at once or after a start. */
export const liveStatuses: readonly SessionStatus[] = ['creating', 'running', 'paused', 'stopped', 'crashed']

/** Writes a new status with its cause, and publishes it. Undefined when the session has left `from` meanwhile. */
export async function mark(
  { store, events, ends, metrics, log }: Context,
  session: Session,
  status: SessionStatus,
  how: { by: string; reason: string; from?: readonly SessionStatus[]; changes?: Partial<Session> },
): Promise<Session | undefined> {
  const live = liveStatuses.includes(status) ? 1 : 0
  const changes = {
    status,
    status_by: how.by,
    status_reason: how.reason,
    status_at: Date.now(),
    // An unchanged `live` is left out, because writing it would update indexes.
    ...(live === session.live ? {} : { live }),
    ...how.changes,
  }
  const changed = await store.sessions.update(session.id, how.from, changes)
  if (!changed) return undefined
  ends.note(changed)
  if (changed.live === 0) metrics.count('sandkasten_session_ends_total', { status })
  log.info({ session: session.id, from: session.status, status, by: how.by, reason: how.reason }, 'session')
  events.publish({
    projectId: session.project_id,
    sessionId: session.id,
    type: `session.${status}`,
    data: { by: how.by, reason: how.reason },
  })
  return changed
}

/** The same error for a missing session and for one of another project. */
export function noSession(id: string): SandboxError {
  return new SandboxError('not_found', `There is no session ${id}.`, {
    hint: {
      sdk: 'List sessions with listSessions().',
      http: 'See GET /v1/sessions.',
      cli: 'See sandkasten sessions list.',
    },
  })
}

export function notUsable(session: Session): SandboxError {
  const { id, status, status_reason: reason } = session
  const because = reason ? ` (${reason})` : ''
  if (session.live === 0)
    return new SandboxError('gone', `The session ${id} is ${status}${because}.`, {
      details: { status },
      hint: 'Create a new session.',
    })
  return new SandboxError('not_running', `The session ${id} is ${status}${because}.`, {
    details: { status },
    hint:
      status === 'paused' ? pausedHint : status === 'creating' ? 'Wait until it is running.' : stoppedHint,
  })
}

const pausedHint = {
  sdk: 'Resume it with resume(), or create sessions with wakeOnUse.',
  http: 'Resume it with POST /v1/sessions/{id}/resume, or create sessions with wake_on_use.',
  cli: 'Resume it with sandkasten sessions resume, or create sessions with --wake-on-use.',
}

const stoppedHint = {
  sdk: 'Start it with start(), or create sessions with wakeOnUse.',
  http: 'Start it with POST /v1/sessions/{id}/start, or create sessions with wake_on_use.',
  cli: 'Start it with sandkasten sessions start, or create sessions with --wake-on-use.',
}

/** Throws `interrupted` when the request names another start of the sandbox. */
export function refuseOther(session: Session, incarnation: number | undefined): void {
  if (incarnation === undefined || session.incarnation === incarnation) return
  throw new SandboxError('interrupted', `The session ${session.id} was started again.`, {
    details: { incarnation: session.incarnation },
    hint: 'Get the session again. Its earlier processes have ended.',
  })
}
