import { type ConnectOptions, connect } from './api.ts'
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
  const snapshot = await (await connect(options)).json<Snapshot>(
    'POST',
    `/v1/sessions/${encodeURIComponent(id)}/snapshots`,
    options.name === undefined ? {} : { name: options.name },
  )
  print(options.json, snapshot, () => snapshot.id)
  return 0
}

export async function listSnapshots(options: SnapshotOptions): Promise<number> {
  const connection = await connect(options)
  const snapshots: Snapshot[] = []
  let cursor: string | undefined
  do {
    const query = new URLSearchParams({
      limit: '1000',
      ...(options.session ? { session_id: options.session } : {}),
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
  const answers: Array<{ id: string; deleted: boolean }> = []
  for (const id of ids) {
    const path = `/v1/snapshots/${encodeURIComponent(id)}`
    answers.push({ id, ...(await connection.json<{ deleted: boolean }>('DELETE', path)) })
  }
  print(options.json, answers, () =>
    answers.map(({ id, deleted }) => `${id} ${deleted ? 'deleted' : 'was gone already'}`).join('\n'),
  )
  return 0
}
