import type { EndAction } from '../../config/index.ts'
import type { Session } from '../context.ts'

/** When a session ends if it is not used. */
export function idleEnd(session: Pick<Session, 'last_activity' | 'ttl_ms'>): number {
  return session.last_activity + session.ttl_ms
}

export function lifetimeEnd(session: Pick<Session, 'started_at' | 'lifetime_ms'>): number | undefined {
  return session.lifetime_ms === null ? undefined : session.started_at + session.lifetime_ms
}

/** When a stopped session is destroyed. */
export function stoppedEnd(
  session: Pick<Session, 'status' | 'status_at' | 'stopped_ttl_ms'>,
): number | undefined {
  const { status, status_at: since, stopped_ttl_ms: ms } = session
  return status === 'stopped' && ms !== null ? since + ms : undefined
}

/** The columns that decide when a session ends. */
export type Leased = Pick<
  Session,
  | 'id'
  | 'status'
  | 'status_at'
  | 'started_at'
  | 'last_activity'
  | 'ttl_ms'
  | 'on_idle'
  | 'lifetime_ms'
  | 'on_lifetime'
  | 'stopped_ttl_ms'
>

interface End {
  readonly at: number
  readonly action: EndAction
  readonly reason: string
}

/** All scheduled ends of a session. If several are due, the first gives the reason. */
export function endsOf(session: Leased): End[] {
  const seconds = (ms: number) => Math.round(ms / 1000)
  const kept = stoppedEnd(session)
  if (kept !== undefined)
    return [{ at: kept, action: 'destroy', reason: `stopped for ${seconds(session.stopped_ttl_ms!)} s` }]
  if (session.status !== 'running' && session.status !== 'paused') return []
  const lifetime = lifetimeEnd(session)
  const idle = { action: session.on_idle as EndAction, reason: `idle for ${seconds(session.ttl_ms)} s` }
  return [
    ...(lifetime === undefined
      ? []
      : [{ at: lifetime, action: session.on_lifetime as EndAction, reason: 'its lifetime is over' }]),
    { at: idleEnd(session), ...idle },
    // Do not pause a paused session again.
  ].filter(({ action }) => action !== 'pause' || session.status !== 'paused')
}

export function earliestEnd(session: Leased): number | undefined {
  const times = endsOf(session).map(({ at }) => at)
  return times.length === 0 ? undefined : Math.min(...times)
}
