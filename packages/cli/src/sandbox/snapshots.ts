import type { NamedSnapshot, ScopedRegistry } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import { forEach } from '../daemon/each.ts'
import { say } from '../errors.ts'
import { sizeText, timeText } from '../format.ts'
import { waiting } from '../progress.ts'
import { print, table } from '../table.ts'
import { type Asking, permitted } from './ask.ts'
import { interruptible } from './interrupt.ts'
import { openHere } from './open.ts'
import { reportItem } from './report.ts'

export interface SnapshotsOptions extends Asking {
  provider?: string
  remove?: boolean
  force?: boolean
  iso?: boolean
}

/** Lists snapshots at a provider, or deletes some. */
export async function snapshots(ids: readonly string[], options: SnapshotsOptions): Promise<number> {
  if (Boolean(options.remove) !== ids.length > 0)
    throw new SandboxError(
      'invalid_argument',
      ids.length > 0 ? 'What to do with these snapshots?' : 'Which snapshots?',
      { hint: 'Delete snapshots with sandkasten sandbox snapshots --remove ID, or omit both to list them.' },
    )
  await using opened = await openHere()
  const { sandboxes } = opened
  if (ids.length > 0)
    return await forEach(ids, options, (id) => removeOne(sandboxes, id, options), reportItem)
  const { provider } = options
  const all = await interruptible((signal) =>
    waiting('asking the provider', sandboxes.listSnapshots({ provider, signal })),
  )
  if (all.length === 0 && !options.json) say('No snapshots. Make one: sandkasten sandbox snapshot NAME')
  else print(options.json, all, () => tableOf(all, options))
  return 0
}

async function removeOne(sandboxes: ScopedRegistry, id: string, options: SnapshotsOptions) {
  const { provider, force } = options
  if (!(await permitted(`Delete the snapshot ${id}?`, options)))
    return { facts: { snapshotId: id, deleted: false }, text: `${id} stays` }
  const existed = await interruptible((signal) =>
    waiting(`deleting ${id}`, sandboxes.deleteSnapshot(id, { provider, force, signal })),
  )
  if (!existed)
    throw new SandboxError('not_found', `There is no snapshot ${id}.`, {
      hint: 'See sandkasten sandbox snapshots.',
    })
  return { facts: { snapshotId: id, deleted: true }, text: `${id} deleted` }
}

function tableOf(all: readonly NamedSnapshot[], options: SnapshotsOptions): string {
  return table(
    [
      { title: 'ID', min: 16 },
      { title: 'SANDBOX', min: 8 },
      { title: 'NAME', min: 8, drop: 1 },
      'SIZE',
      'CREATED',
    ],
    all.map(({ snapshotId, sandbox, isLast, name, sizeBytes, createdAt }) => [
      snapshotId,
      isLast ? `${sandbox} (last)` : sandbox,
      name,
      sizeBytes === undefined ? undefined : sizeText(sizeBytes),
      createdAt && timeText(createdAt.toISOString(), options),
    ]),
  )
}
