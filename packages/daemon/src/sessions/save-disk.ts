import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import type { SnapshotRow } from '../store/index.ts'
import type { Context, Sandbox, Session } from './context.ts'
import { settingsOf } from './snapshot-settings.ts'

/**
 * Saves a session's disk and writes its row. The provider knows the snapshot by a name of this daemon. So a snapshot
 * without a row, left by a crash, is recognised at the next start and removed (`Reconciler.tidy`).
 */
export async function saveDisk(
  { store, provider, instanceId, log }: Context,
  session: Session,
  sandbox: Sandbox,
  { name, signal }: { name?: string; signal?: AbortSignal } = {},
): Promise<SnapshotRow> {
  if (!provider.capabilities.snapshot)
    throw new SandboxError('unsupported', 'This sandbox cannot be saved.', { hint: 'Use another isolator.' })
  const id = randomId()
  const { snapshotId } = await sandbox.snapshot({ name: `${instanceId}.${id}`, signal })
  try {
    const found = (await provider.listSnapshots()).find((snapshot) => snapshot.snapshotId === snapshotId)
    const row: SnapshotRow = {
      id,
      project_id: session.project_id,
      instance_id: instanceId,
      session_id: session.id,
      name: name ?? null,
      provider_id: snapshotId,
      image: session.image,
      size_bytes: found?.sizeBytes ?? null,
      created_at: Date.now(),
      settings: JSON.stringify(settingsOf(session)),
    }
    await store.snapshots.insert(row)
    return row
  } catch (error) {
    // No client knows this snapshot, so remove it.
    await provider
      .deleteSnapshot(snapshotId)
      .catch((cleanUp) =>
        log.warn(
          { snapshot: snapshotId, err: cleanUp },
          'cannot remove an unfinished snapshot; the next start removes it',
        ),
      )
    throw error
  }
}

/** Whether a provider's snapshot was made by this daemon. */
export function isOurs(instanceId: string, name: string | undefined): boolean {
  return name?.startsWith(`${instanceId}.`) ?? false
}
