import type { Context } from '../context.ts'
import type { SandboxRow } from '../store/index.ts'
import type { SandboxRecord, SandboxSettings, Use } from '../types.ts'
import { networkOf } from './network.ts'

/** What callers see of rows. The only place that makes records; no secret gets into one. */
export async function recordsOf(context: Context, rows: readonly SandboxRow[]): Promise<SandboxRecord[]> {
  const ids = rows.map(({ id }) => id)
  const threads = await context.store.threads.of(ids)
  const held = new Set((await context.store.holds.of(ids)).map(({ sandbox_id }) => sandbox_id))
  return Promise.all(
    rows.map(async (row) =>
      recordOf(row, threads.get(row.id) ?? [], held.has(row.id) ? await context.uses.of(row) : []),
    ),
  )
}

export async function recordFor(context: Context, row: SandboxRow): Promise<SandboxRecord> {
  const [record] = await recordsOf(context, [row])
  return record!
}

function recordOf(row: SandboxRow, threads: readonly string[], uses: readonly Use[]): SandboxRecord {
  const settings = JSON.parse(row.settings) as SandboxSettings
  const { image, ports = [] } = settings
  return {
    id: row.id,
    name: row.name,
    provider: row.provider,
    providerSandboxId: row.provider_sandbox_id ?? undefined,
    status: row.status,
    unreachable: false,
    errorMessage: row.error_message ?? undefined,
    incarnation: row.incarnation,
    baseUrl: row.base_url ?? undefined,
    snapshotId: row.snapshot_id ?? undefined,
    snapshotAt: date(row.snapshot_at),
    repoUrl: row.repo_url ?? undefined,
    label: row.label ?? undefined,
    directory: row.directory ?? undefined,
    image,
    ports,
    network: networkOf(settings),
    channelId: row.channel_id ?? undefined,
    expiresAt: date(row.expires_at),
    idleStopMs: row.idle_stop_ms ?? undefined,
    lastUsedAt: new Date(row.last_used_at),
    lastCheckedAt: date(row.last_checked_at),
    createdAt: new Date(row.created_at),
    threads,
    uses,
  }
}

function date(at: number | null): Date | undefined {
  return at === null ? undefined : new Date(at)
}
