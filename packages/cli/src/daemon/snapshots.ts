import { waiting } from '../progress.ts'
import { type ConnectOptions, connect } from './api.ts'
import { forEach } from './each.ts'
import { print, table } from './table.ts'

interface Snapshot {
  id: string
  name: string | null
  session_id: string
  size_bytes: number | null
  created_at: string
}

export interface SnapshotOptions extends ConnectOptions {
  json?: boolean
  name?: string
  session?: string
}

export async function createSnapshot(id: string, options: SnapshotOptions): Promise<number> {
  const connection = await connect(options)
  const path = `${await connection.session(id)}/snapshots`
  const body = options.name === undefined ? {} : { name: options.name }
  const snapshot = await waiting('saving the disk', connection.json<Snapshot>('POST', path, body))
  print(options.json, snapshot, () => snapshot.id)
  return 0
}

export async function listSnapshots(options: SnapshotOptions): Promise<number> {
  const connection = await connect(options)
  const session = options.session && (await connection.session(options.session)).split('/').at(-1)!
  const snapshots: Snapshot[] = []
  let cursor: string | undefined
  do {
    const query = new URLSearchParams({
      limit: '1000',
      ...(session ? { session_id: session } : {}),
      ...(cursor ? { cursor } : {}),
    })
    const page = await connection.json<{ snapshots: Snapshot[]; next_cursor?: string }>(
      'GET',
      `/v1/snapshots?${query}`,
    )
    snapshots.push(...page.snapshots)
    cursor = page.next_cursor
  } while (cursor !== undefined)
  print(options.json, snapshots, () =>
    table(
      ['ID', 'NAME', 'SESSION', 'BYTES', 'CREATED'],
      snapshots.map(({ id, name, session_id, size_bytes, created_at }) => [
        id,
        name,
        session_id,
        size_bytes,
        created_at,
      ]),
    ),
  )
  return 0
}

export async function deleteSnapshots(ids: readonly string[], options: SnapshotOptions): Promise<number> {
  const connection = await connect(options)
  return forEach(ids, options, async (id) => {
    const path = `/v1/snapshots/${encodeURIComponent(id)}`
    const { deleted } = await connection.json<{ deleted: boolean }>('DELETE', path)
    return { facts: { id, deleted }, text: `${id} ${deleted ? 'deleted' : 'was gone already'}` }
  })
}
