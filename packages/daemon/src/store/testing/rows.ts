import type { DatabaseLocation } from '@sandkasten/database'
import type { StoreOptions } from '../store.ts'
import type { ProjectRow, SessionRow } from '../tables.ts'

export const project: ProjectRow = {
  id: 'p',
  name: 'p',
  quotas: null,
  policy: null,
  created_at: 1,
  turn: 0,
}

export function sessionRow(changes: Partial<SessionRow> = {}): SessionRow {
  return {
    id: 'aaaa',
    project_id: 'p',
    instance_id: 'i',
    key_id: 'k',
    subject: null,
    name: null,
    status: 'running',
    status_reason: '',
    status_by: 'test',
    status_at: 1_800_000_000_000,
    sandbox_id: null,
    incarnation: 1,
    image: 'host',
    labels: '{}',
    env_names: '[]',
    workdir: null,
    cwd: null,
    cpu: 0.5,
    mem_mb: 128,
    disk_mb: 0,
    pids: 10,
    network: 'none',
    network_policy: null,
    ttl_ms: 1000,
    on_idle: 'destroy',
    lifetime_ms: null,
    on_lifetime: 'destroy',
    stopped_ttl_ms: null,
    wake_on_use: 0,
    run_user: null,
    writable_paths: null,
    snapshot_id: null,
    volumes: '[]',
    created_at: 1_800_000_000_000,
    started_at: 0,
    last_activity: 0,
    live: 1,
    starting: 0,
    ...changes,
  }
}

export function storeOptions(location: DatabaseLocation): StoreOptions {
  return 'url' in location ? { db_url: location.url, db_path: '' } : { db_path: location.file }
}
