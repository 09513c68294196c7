import { SandboxError } from '@sandkasten/sdk'
import type { EndAction } from '../../config/index.ts'
import type { Caller } from '../../keys/index.ts'
import type { Context, Session } from '../context.ts'
import type { Meant } from '../lifecycle.ts'
import { refuseBeyond, rulesOf } from '../limits/policy.ts'
import { notUsable, refuseOther } from '../status.ts'
import type { Use } from '../use.ts'

export interface LeaseChanges {
  ttlMs?: number
  onIdle?: EndAction
  /** Counted from now. */
  lifetimeMs?: number | null
  onLifetime?: EndAction
  /** Counted from the stop. Null: until a caller destroys the session. */
  stoppedTtlMs?: number | null
}

/** Extends the idle lease and the lifetime to at least this long from now. Never shortens them. */
export async function extendLease(
  context: Context,
  use: Use,
  caller: Caller,
  id: string,
  ms: number,
  { incarnation }: Meant,
): Promise<Session> {
  const { config, live } = context
  const session = await use.findHere(caller, id)
  refuseOther(session, incarnation)
  if (ms > config.max_ttl_seconds * 1000)
    throw new SandboxError(
      'invalid_argument',
      `ttl_seconds exceeds max_ttl_seconds (${config.max_ttl_seconds}).`,
      {
        hint: 'Ask for less, or raise max_ttl_seconds.',
      },
    )
  const now = Date.now()
  const lifetime =
    session.lifetime_ms === null ? null : Math.max(session.lifetime_ms, now - session.started_at + ms)
  const longer = lifetime !== null && lifetime > session.lifetime_ms!
  refuseBeyond(await rulesOf(context, caller), { ttlMs: ms, lifetimeMs: longer ? lifetime : undefined })
  live.touch(id)
  const changes = { ttl_ms: Math.max(session.ttl_ms, ms), lifetime_ms: lifetime, last_activity: now }
  return write(context, session, changes)
}

/** Replaces leases of the session. This counts as activity. */
export async function setLeases(
  context: Context,
  use: Use,
  caller: Caller,
  id: string,
  leases: LeaseChanges,
): Promise<Session> {
  const { config, live } = context
  for (const ms of [leases.ttlMs, leases.lifetimeMs])
    if (typeof ms === 'number' && ms > config.max_ttl_seconds * 1000)
      throw new SandboxError(
        'invalid_argument',
        `The lifetime or idle time exceeds max_ttl_seconds (${config.max_ttl_seconds}).`,
        { hint: 'Ask for less, or raise max_ttl_seconds.' },
      )
  await use.findHere(caller, id)
  const rules = await rulesOf(context, caller)
  // Under the lock, because a concurrent start changes `started_at`.
  return live.locked(id, async () => {
    const session = await use.findHere(caller, id)
    if (session.live === 0) throw notUsable(session)
    const now = Date.now()
    const { ttlMs, onIdle, onLifetime, stoppedTtlMs } = leases
    // The request counts from now; the row and the policy count from the last start.
    const asked =
      typeof leases.lifetimeMs === 'number' ? now - session.started_at + leases.lifetimeMs : leases.lifetimeMs
    refuseBeyond(rules, { ttlMs, lifetimeMs: asked ?? undefined })
    const without = rules.policy.max_lifetime_seconds === undefined ? null : rules.longestLifetimeMs
    live.touch(id)
    const changes = {
      ttl_ms: ttlMs,
      on_idle: onIdle,
      lifetime_ms: asked === null ? without : asked,
      on_lifetime: onLifetime,
      stopped_ttl_ms: stoppedTtlMs,
      last_activity: now,
    }
    return write(context, session, changes)
  })
}

/** Writes changed leases and updates the timer. */
async function write(context: Context, session: Session, changes: Partial<Session>): Promise<Session> {
  const { store, ends } = context
  const changed = (await store.sessions.update(session.id, undefined, changes)) ?? session
  ends.note(changed)
  return changed
}
