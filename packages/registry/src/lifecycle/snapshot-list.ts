import { SandboxError, supports } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { ScopeColumns } from '../scope.ts'
import type { SandboxRow } from '../store/index.ts'
import type { DeleteSnapshotOptions, NamedSnapshot, Scope, SnapshotListOptions } from '../types.ts'
import { request } from './deadline.ts'

interface Where {
  readonly given: Scope
  readonly columns: ScopeColumns
}

/** All snapshots of the account at the provider, with the sandboxes of this scope that they belong to. */
export async function listSnapshots(
  context: Context,
  scope: Where,
  { provider: wanted, signal }: SnapshotListOptions,
): Promise<NamedSnapshot[]> {
  const provider = await saving(context, scope, wanted)
  const limit = { ms: context.timeouts.lookMs, signal, what: `Asking ${provider.name} for snapshots` }
  const infos = await request(limit, (signal) => provider.listSnapshots({ signal }))
  const rows = await context.store.sandboxes.list(scope.columns, { provider: provider.name })
  return infos.map((info) => ({
    ...info,
    provider: provider.name,
    sandbox: (isLastOf(rows, info.snapshotId) ?? madeFrom(rows, info.sandboxId))?.name,
    isLast: isLastOf(rows, info.snapshotId) !== undefined,
  }))
}

/** Deletes a snapshot, unless a sandbox of this scope would be restored from it. */
export async function deleteSnapshot(
  context: Context,
  scope: Where,
  snapshotId: string,
  { provider: wanted, force, signal }: DeleteSnapshotOptions,
): Promise<boolean> {
  const provider = await saving(context, scope, wanted)
  const rows = await context.store.sandboxes.list(scope.columns, { provider: provider.name })
  const owner = isLastOf(rows, snapshotId)
  if (owner && !force)
    throw new SandboxError('conflict', `${snapshotId} is the last snapshot of “${owner.name}”.`, {
      hint: {
        sdk: 'Save the sandbox again first, or pass { force: true }.',
        http: 'Save the sandbox again first.',
        cli: `Save it again with sandkasten sandbox snapshot ${owner.name}, or add --force.`,
      },
      details: { name: owner.name, snapshotId },
    })
  const limit = { ms: context.timeouts.changeMs, signal, what: `Deleting the snapshot ${snapshotId}` }
  return request(limit, (signal) => provider.deleteSnapshot(snapshotId, { signal }))
}

async function saving(context: Context, { given }: Where, wanted: string | undefined) {
  const { provider } = await context.providers.choose(given, wanted)
  if (supports(provider, 'snapshot')) return provider
  throw new SandboxError('unsupported', `The provider “${provider.name}” has no snapshots.`, {
    provider: provider.name,
    details: { ability: 'snapshot' },
    hint: 'Name a provider that has them.',
  })
}

const isLastOf = (rows: readonly SandboxRow[], snapshotId: string) =>
  rows.find((row) => row.snapshot_id === snapshotId)

const madeFrom = (rows: readonly SandboxRow[], sandboxId: string | undefined) =>
  rows.find((row) => sandboxId !== undefined && row.provider_sandbox_id === sandboxId)
