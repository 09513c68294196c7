import { sizeText, timeText } from '../../format.ts'
import { waiting } from '../../progress.ts'
import { facts, print, table } from '../../table.ts'
import { allPages, type ConnectOptions, connect, snapshotId } from '../client/api.ts'
import { forEach } from '../each.ts'

interface Snapshot {
  id: string
  name: string | null
  session_id: string
  image: string
  size_bytes: number | null
  created_at: string
}

export interface SnapshotOptions extends ConnectOptions {
  json?: boolean
  iso?: boolean
  name?: string
  session?: string
}

export async function createSnapshot(id: string, options: SnapshotOptions): Promise<number> {
  const connection = await connect(options)
  const path = `${await connection.session(id)}/snapshots`
  const { name } = options
  const snapshot = await waiting('saving the disk', connection.json<Snapshot>('POST', path, { name }))
  print(options.json, snapshot, () => snapshot.id)
  return 0
}

export async function listSnapshots(options: SnapshotOptions): Promise<number> {
  const connection = await connect(options)
  const session_id = options.session && (await connection.session(options.session)).split('/').at(-1)!
  const snapshots = await allPages<Snapshot>(connection, '/v1/snapshots', 'snapshots', { session_id })
  print(options.json, snapshots, () =>
    table(
      ['ID', { title: 'NAME', min: 8 }, { title: 'SESSION', drop: 2 }, 'SIZE', { title: 'CREATED', drop: 1 }],
      snapshots.map(({ id, name, session_id, size_bytes, created_at }) => [
        id,
        name,
        session_id,
        size_bytes === null ? undefined : sizeText(size_bytes),
        timeText(created_at, options),
      ]),
    ),
  )
  return 0
}

export async function getSnapshot(id: string, options: SnapshotOptions): Promise<number> {
  const connection = await connect(options)
  const path = `/v1/snapshots/${await snapshotId(connection, id)}`
  const snapshot = await connection.json<Snapshot>('GET', path)
  print(options.json, snapshot, () =>
    facts([
      ['id', snapshot.id],
      ['name', snapshot.name],
      ['session', snapshot.session_id],
      ['image', snapshot.image],
      ['size', snapshot.size_bytes === null ? undefined : sizeText(snapshot.size_bytes)],
      ['created', timeText(snapshot.created_at, options)],
    ]),
  )
  return 0
}

export async function deleteSnapshots(ids: readonly string[], options: SnapshotOptions): Promise<number> {
  const connection = await connect(options)
  return forEach(ids, options, async (id) => {
    const path = `/v1/snapshots/${encodeURIComponent(await snapshotId(connection, id))}`
    const { deleted } = await connection.json<{ deleted: boolean }>('DELETE', path)
    return { facts: { id, deleted }, text: `${id} ${deleted ? 'deleted' : 'was already deleted'}` }
  })
}
