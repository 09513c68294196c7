import type { CommandResult, FileStat, ShellResult } from '@sandkasten/sdk'
import type { z } from 'zod'
import {
  idleEnd,
  lifetimeEnd,
  networkOfRow,
  type Session,
  shownNetwork,
  volumesOf,
} from '../sessions/index.ts'
import type * as schemas from './schemas.ts'

/** Responses of the API for objects of the store. */

/** A page holds at most about this many bytes of labels and names; the cursor continues after it. */
const pageBytes = 1_000_000

/** Returns the rows that fit into one page, and at least one. */
export function boundedPage(rows: readonly Session[]): Session[] {
  let bytes = 0
  const end = rows.findIndex(({ labels, env_names, volumes, name, network_policy }, at) => {
    bytes += labels.length + env_names.length + volumes.length + (name?.length ?? 0)
    bytes += network_policy?.length ?? 0
    return at > 0 && bytes > pageBytes
  })
  return end === -1 ? [...rows] : rows.slice(0, end)
}

export function sessionView(session: Session): z.infer<typeof schemas.session> {
  const ends = session.status === 'running' || session.status === 'paused'
  const lifetime = lifetimeEnd(session)
  return {
    id: session.id,
    name: session.name,
    status: session.status,
    status_reason: session.status_reason,
    status_by: session.status_by,
    status_at: iso(session.status_at),
    subject: session.subject,
    image: session.image,
    labels: JSON.parse(session.labels),
    env_names: JSON.parse(session.env_names),
    limits: {
      cpu: session.cpu,
      memory_mb: session.mem_mb,
      pids: session.pids,
      disk_mb: session.disk_mb === 0 ? null : session.disk_mb,
    },
    network_mode: session.network,
    network: shownNetwork(networkOfRow(session)),
    workdir: session.workdir,
    user: session.run_user,
    writable_paths: session.writable_paths === null ? null : JSON.parse(session.writable_paths),
    cwd: session.cwd ?? session.workdir,
    incarnation: session.incarnation,
    snapshot_id: session.snapshot_id,
    volumes: volumesOf(session).map(({ name, path, read_only }) => ({ name, path, read_only })),
    wake_on_use: session.wake_on_use === 1,
    ttl_seconds: session.ttl_ms / 1000,
    on_idle: session.on_idle as 'stop',
    lifetime_seconds: session.lifetime_ms === null ? null : session.lifetime_ms / 1000,
    on_lifetime: session.on_lifetime as 'stop',
    created_at: iso(session.created_at),
    started_at: iso(session.started_at),
    last_activity: iso(session.last_activity),
    expires_at: ends ? iso(idleEnd(session)) : null,
    lifetime_ends_at: ends && lifetime !== undefined ? iso(lifetime) : null,
  }
}

export function shellView(result: ShellResult, execId?: string): z.infer<typeof schemas.execResult> {
  return {
    exec_id: execId,
    exit_code: result.exitCode,
    cwd: result.cwd,
    output: result.output,
    truncated: result.truncated,
    duration_ms: round(result.durationMs),
    timed_out: result.timedOut,
    shell_restarted: result.shellRestarted,
    warning: result.warning,
  }
}

export function runView(result: CommandResult, execId?: string): z.infer<typeof schemas.runResult> {
  return {
    exec_id: execId,
    exit_code: result.exitCode,
    stdout: result.stdout,
    stderr: result.stderr,
    signal: result.signal,
    timed_out: result.timedOut,
    truncated: result.truncated,
    oom: result.oom,
    duration_ms: round(result.durationMs),
  }
}

export function statView(stat: FileStat): z.infer<typeof schemas.fileStat> {
  return { type: stat.type, size: stat.size, mode: stat.mode ?? null, mtime_ms: stat.mtimeMs ?? null }
}

export function iso(ms: number): string {
  return new Date(ms).toISOString()
}

export function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : iso(ms)
}

function round(ms: number): number {
  return Math.round(ms * 1000) / 1000
}
