import { type CallOptions, SandboxError, type SandboxInfo, type SandboxProvider } from '@sandkasten/sdk'
import { type Context, labels } from '../context.ts'
import type { Lease } from '../leases/index.ts'
import { request } from '../lifecycle/deadline.ts'
import { check, checkProvider, remarkOf, settle } from '../lifecycle/index.ts'
import type { ProviderKey, SandboxRow } from '../store/index.ts'
import type { ReconcileReport } from '../types.ts'
import { runLane, type Visit } from './lane.ts'

/**
 * Compares rows and sandboxes in both directions. The provider is the authority.
 *
 * - A row whose sandbox is gone becomes `stopped` if it has a snapshot, else `failed` with the reason. If a sandbox of
 *   such a failed row turns up again, the row takes it back.
 * - A sandbox that carries this registry's label is destroyed if its row is gone, or has a newer sandbox.
 *
 * Everything happens under the lease of the row, so the sandbox of a create that still runs is left alone. Nothing is
 * changed for a provider that cannot be asked.
 */
export async function reconcile(
  context: Context,
  { provider: only, signal }: CallOptions & { provider?: string } = {},
): Promise<ReconcileReport> {
  if (only !== undefined) await checkProvider(context, only)
  const report: Report = { done: [], failed: [], orphans: [], unreachable: [] }
  const wanted = (await providersOf(context, report)).filter(
    ({ provider }) => only === undefined || provider.name === only,
  )
  await Promise.all(
    wanted.map(({ key, provider }) => reconcileProvider({ context, provider, key, signal, report })),
  )
  signal?.throwIfAborted()
  return {
    ...report,
    unreachable: report.unreachable.filter(({ provider }) => only === undefined || provider === only),
  }
}

type Report = { -readonly [Key in keyof ReconcileReport]: Array<ReconcileReport[Key][number]> }

interface Reconciliation {
  readonly context: Context
  readonly provider: SandboxProvider
  readonly key: ProviderKey
  readonly signal: AbortSignal | undefined
  readonly report: Report
}

/** The providers that are set up, and those of rows, whose credentials may have been removed. */
async function providersOf(
  context: Context,
  report: Report,
): Promise<Array<Pick<Reconciliation, 'provider' | 'key'>>> {
  const found = new Map<string, Pick<Reconciliation, 'provider' | 'key'>>()
  const nameOf = ({ provider, credentials_id }: ProviderKey) => JSON.stringify([provider, credentials_id])
  const all = await context.providers.all((provider, error) => report.unreachable.push({ provider, error }))
  for (const { provider, credentialsId } of all) {
    const key = { provider: provider.name, credentials_id: credentialsId }
    found.set(nameOf(key), { key, provider })
  }
  for (const key of await context.store.due.allProviders()) {
    if (found.has(nameOf(key))) continue
    try {
      const provider = await context.providers.of({ ...key, name: `all sandboxes at ${key.provider}` })
      found.set(nameOf(key), { key, provider })
    } catch (error) {
      report.unreachable.push({ provider: key.provider, error })
    }
  }
  return [...found.values()]
}

async function reconcileProvider(reconciliation: Reconciliation): Promise<void> {
  const { context, provider, key, signal, report } = reconciliation
  try {
    const ours = await oursAt(reconciliation)
    const listed = new Map(ours.map((info) => [info.sandboxId, info]))
    const rows = (await context.store.sandboxes.allOf(provider.name)).filter(
      ({ credentials_id }) => credentials_id === key.credentials_id,
    )
    await inLane(reconciliation, rows, (row) => compare(reconciliation, row, listed))
    // Afterwards, because what is left of a sandbox that is gone is an orphan, too.
    await inLane(reconciliation, ours, (info) => removeOrphan(reconciliation, info, listed))
  } catch (error) {
    if (!signal?.aborted) report.unreachable.push({ provider: provider.name, error })
  }
}

/** Sandboxes with this registry's label. A provider that does not filter must not cost another caller a sandbox. */
async function oursAt({ context, provider, signal }: Reconciliation): Promise<SandboxInfo[]> {
  if (!provider.createOptions.has('labels')) return []
  const wanted = { [labels.registry]: context.registryId }
  const limit = { ms: context.timeouts.lookMs, signal, what: `Listing the sandboxes at ${provider.name}` }
  const infos = await request(limit, (signal) => provider.list({ labels: wanted, signal }))
  return infos.filter(
    ({ labels: given, status }) =>
      given[labels.registry] === context.registryId &&
      Boolean(given[labels.sandbox]) &&
      status !== 'destroyed',
  )
}

/** A few at a time. Throws if the provider fails again and again: then it counts as unreachable. */
async function inLane<T extends { id: string }>(
  { report, signal }: Reconciliation,
  items: readonly T[],
  work: (item: T) => Promise<Visit>,
): Promise<void> {
  const { visits, pauseMs } = await runLane({ rows: async () => [...items], visit: work, signal })
  const failed = visits.filter((visit) => 'error' in visit)
  report.done.push(...visits.filter((visit) => 'action' in visit))
  report.failed.push(...failed)
  if (pauseMs !== undefined) throw failed.at(-1)!.error
}

async function removeOrphan(
  reconciliation: Reconciliation,
  info: SandboxInfo,
  listed: ReadonlyMap<string, SandboxInfo>,
): Promise<Visit> {
  const { context, signal } = reconciliation
  const id = info.labels[labels.sandbox]!
  // Read after the listing: a row is written before its sandbox exists, so a missing one is not on its way.
  const row = await context.store.sandboxes.byId(id)
  const sandbox = row?.live === 1 ? row.name : info.id
  if (row?.provider_sandbox_id === info.sandboxId && row.live === 1) return undefined
  return attempt(sandbox, signal, async () => {
    if (row?.live !== 1)
      return (await destroyOrphan(reconciliation, info)) && 'was destroyed: no name belongs to it any more'
    return context.leases.operate(
      id,
      'check',
      async (lease) => {
        if (isLost(lease.row))
          return isNewest(info, listed) ? takeBack(reconciliation, lease, info) : undefined
        if (!isOrphan(lease, info, listed)) return undefined
        return (await destroyOrphan(reconciliation, info)) && `had an earlier sandbox, ${info.id}: destroyed`
      },
      { signal, waitMs: 0 },
    )
  })
}

/**
 * Whether the sandbox belongs to an earlier attempt of the row. Copies that a user made of the present sandbox with
 * `fork` carry its labels, and stay.
 */
function isOrphan({ row }: Lease, info: SandboxInfo, listed: ReadonlyMap<string, SandboxInfo>): boolean {
  if (row.provider_sandbox_id === info.sandboxId) return false
  const attempt = Number(info.labels[labels.attempt])
  if (row.provider_sandbox_id === null) return attempt <= row.lease_token
  const present = listed.get(row.provider_sandbox_id)
  return present !== undefined && attempt < Number(present.labels[labels.attempt])
}

/** Its sandbox was gone, and it has no snapshot: whatever turns up again holds the only copy of its files. */
function isLost({ status, incarnation, provider_sandbox_id, snapshot_id }: SandboxRow): boolean {
  return status === 'failed' && incarnation > 0 && provider_sandbox_id === null && snapshot_id === null
}

function isNewest(info: SandboxInfo, listed: ReadonlyMap<string, SandboxInfo>): boolean {
  const attempts = [...listed.values()]
    .filter(({ labels: given }) => given[labels.sandbox] === info.labels[labels.sandbox])
    .map(({ labels: given }) => Number(given[labels.attempt]))
  return Number(info.labels[labels.attempt]) === Math.max(...attempts)
}

/** The provider had denied that it exists, for example because the credentials were those of another account. */
async function takeBack(
  { context, provider }: Reconciliation,
  lease: Lease,
  info: SandboxInfo,
): Promise<string> {
  await lease.update({ provider_sandbox_id: info.sandboxId })
  const { status } = await check({ context, lease })
  return `is at ${provider.name} again; it is ${status}`
}

async function destroyOrphan(
  { context, provider, signal, report }: Reconciliation,
  info: SandboxInfo,
): Promise<true | undefined> {
  const limit = { ms: context.timeouts.changeMs, signal, what: `Destroying ${info.id}` }
  const existed = await request(limit, (signal) => provider.destroy(info.sandboxId, { signal }))
  if (!existed) return undefined
  report.orphans.push(info)
  return true
}

async function compare(
  { context, provider, signal }: Reconciliation,
  row: SandboxRow,
  listed: ReadonlyMap<string, SandboxInfo>,
): Promise<Visit> {
  const info = row.provider_sandbox_id === null ? undefined : listed.get(row.provider_sandbox_id)
  if (info && row.operation === null && info.status === row.status && isSameEnd(info, row)) {
    const seen = { last_checked_at: context.now(), error_message: remarkOf(row) }
    await context.store.sandboxes.noteSeen(row, seen)
    return undefined
  }
  if (row.provider_sandbox_id === null && row.operation === null && row.status !== 'creating')
    return undefined
  return attempt(row.name, signal, () =>
    context.leases.operate(
      row.id,
      'check',
      async (lease) => {
        const before = row.status
        await settle({ context, lease })
        const after = await check({ context, lease })
        if (after.provider_sandbox_id === null && row.provider_sandbox_id !== null)
          return `is gone at ${provider.name}; it is ${after.status} now`
        return after.status === before ? undefined : `is ${after.status} at ${provider.name}`
      },
      { signal, waitMs: 0 },
    ),
  )
}

async function attempt(
  sandbox: string,
  signal: AbortSignal | undefined,
  work: () => Promise<string | undefined>,
): Promise<Visit> {
  try {
    const action = await work()
    return action === undefined ? undefined : { sandbox, action }
  } catch (error) {
    // Another process works on it, and makes the row true.
    if (SandboxError.is(error, 'conflict', 'interrupted', 'not_found') || signal?.aborted) return undefined
    return { sandbox, error }
  }
}

function isSameEnd({ expiresAt }: SandboxInfo, { expires_at }: SandboxRow): boolean {
  const end = expiresAt?.getTime() ?? null
  return end === expires_at || (end !== null && expires_at !== null && Math.abs(end - expires_at) < sameMs)
}

const sameMs = 1_000
