import type { Command, Session } from '../../sessions/index.ts'
import { type Entry, frontLabel, type Kept } from './entry.ts'

/** Our rows in the shapes that the SDK's validators accept. */

/** The only region. */
export const region = 'local'

export type Status = 'pending' | 'running' | 'stopping' | 'stopped' | 'failed' | 'aborted' | 'snapshotting'

const statuses: Readonly<Record<Session['status'], Status>> = {
  creating: 'pending',
  running: 'running',
  // A paused sandbox resumes as a stopped one does.
  paused: 'stopped',
  stopped: 'stopped',
  crashed: 'stopped',
  failed: 'failed',
  expired: 'stopped',
  destroyed: 'stopped',
}

export function sidOf(session: Session, incarnation = session.incarnation): string {
  return `sbx_${session.id}_${incarnation}`
}

export function tagsOf(session: Session): Record<string, string> {
  const { [frontLabel]: _, ...tags } = JSON.parse(session.labels) as Record<string, string>
  return tags
}

export function sandboxView(session: Session, kept: Kept) {
  return {
    name: session.name ?? session.id,
    persistent: kept.persistent,
    region,
    vcpus: session.cpu,
    memory: session.mem_mb,
    ...(kept.runtime === undefined ? { image: session.image } : { runtime: kept.runtime }),
    timeout: kept.timeoutMs,
    networkPolicy: policyOf(session),
    createdAt: session.created_at,
    updatedAt: session.status_at,
    currentSessionId: sidOf(session),
    currentSnapshotId: kept.currentSnapshotId,
    status: statuses[session.status],
    statusUpdatedAt: session.status_at,
    ...(session.workdir === null ? {} : { cwd: session.workdir }),
    tags: tagsOf(session),
    snapshotExpiration: kept.snapshotExpirationMs,
  }
}

/** One run; an earlier one than the session's last is over. */
export function sessionView(entry: Entry, session: Session, incarnation = session.incarnation) {
  const status = incarnation === session.incarnation ? statuses[session.status] : 'stopped'
  return {
    id: sidOf(session, incarnation),
    memory: session.mem_mb,
    vcpus: session.cpu,
    region,
    timeout: session.lifetime_ms ?? entry.longestMs,
    status,
    requestedAt: session.started_at,
    startedAt: session.started_at,
    createdAt: session.started_at,
    updatedAt: session.status_at,
    ...(status === 'stopped' ? { stoppedAt: session.status_at } : {}),
    cwd: session.workdir ?? '/',
    ...(session.snapshot_id === null ? {} : { sourceSnapshotId: session.snapshot_id }),
    networkPolicy: policyOf(session),
  }
}

function policyOf(session: Session): { mode: 'allow-all' | 'deny-all' } {
  return { mode: session.network === 'open' ? 'allow-all' : 'deny-all' }
}

/** The ports that were opened, each with an address that works from where the client is. */
export async function routesOf(entry: Entry, session: Session) {
  const { ports } = entry.services
  const { addresses } = ports
  if (!addresses) return []
  const rows = await ports.listOpen(session)
  return rows.map(({ port }) => ({
    // Not every machine knows that names below `localhost` are itself.
    url:
      (addresses.domain === 'localhost' ? undefined : addresses.url(session.id, port)) ??
      addresses.pathUrl(session.id, port),
    subdomain: `${port}-${session.id}`,
    port,
  }))
}

type ExecRow = Command['row']

export function commandView(session: Session, row: Omit<ExecRow, 'events'>) {
  const [name = '', ...args] = JSON.parse(row.command) as string[]
  const result =
    row.result === null ? undefined : (JSON.parse(row.result) as { exitCode?: number; durationMs?: number })
  return {
    id: row.exec_id,
    name,
    args,
    cwd: session.workdir ?? '/',
    sessionId: sidOf(session, row.incarnation),
    exitCode: exitCodeOf(row),
    startedAt: row.created_at,
    ...(result?.durationMs === undefined ? {} : { durationMs: Math.round(result.durationMs) }),
  }
}

/** A command whose sandbox ended first has no exit code of its own, but a wait for it must end. */
export function exitCodeOf(row: Omit<ExecRow, 'events'>): number | null {
  if (row.status === 'running') return null
  if (row.status === 'lost') return 137
  return (JSON.parse(row.result ?? '{}') as { exitCode?: number }).exitCode ?? 137
}
