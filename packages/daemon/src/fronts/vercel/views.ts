import type { Command, Session } from '../../sessions/index.ts'
import { networkOfRow } from '../../sessions/index.ts'
import { type Entry, frontLabel, type Kept } from './entry.ts'
import { policyView } from './network.ts'

/** Responses for our rows, in the shapes that the SDK's validators accept. */

/** The only region. */
export const region = 'local'

export type Status = 'pending' | 'running' | 'stopping' | 'stopped' | 'failed' | 'aborted' | 'snapshotting'

const statuses: Readonly<Record<Session['status'], Status>> = {
  creating: 'pending',
  running: 'running',
  // The SDK resumes both in the same way.
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
    networkPolicy: policyView(networkOfRow(session)),
    createdAt: session.created_at,
    updatedAt: session.status_at,
    currentSessionId: sidOf(session),
    currentSnapshotId: kept.currentSnapshotId,
    status: statuses[session.status],
    statusUpdatedAt: session.status_at,
    cwd: session.workdir ?? undefined,
    tags: tagsOf(session),
    snapshotExpiration: kept.snapshotExpirationMs,
  }
}

/** A run of a sandbox. Runs before the last one have stopped. */
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
    stoppedAt: status === 'stopped' ? session.status_at : undefined,
    cwd: session.workdir ?? '/',
    sourceSnapshotId: session.snapshot_id ?? undefined,
    networkPolicy: policyView(networkOfRow(session)),
  }
}

/** The open ports, each with a URL that the client can reach. */
export async function routesOf(entry: Entry, session: Session) {
  const { ports } = entry.services
  const { addresses } = ports
  if (!addresses) return []
  const rows = await ports.listOpen(session)
  return rows.map(({ port }) => ({
    // Names below `localhost` do not resolve on every machine.
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
    durationMs: result?.durationMs && Math.round(result.durationMs),
  }
}

/** A lost command has no exit code, but a client that waits for it needs a final value. */
export function exitCodeOf(row: Omit<ExecRow, 'events'>): number | null {
  if (row.status === 'running') return null
  if (row.status === 'lost') return 137
  return (JSON.parse(row.result ?? '{}') as { exitCode?: number }).exitCode ?? 137
}
