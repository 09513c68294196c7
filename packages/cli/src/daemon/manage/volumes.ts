import { sizeText, timeText } from '../../format.ts'
import { facts, print, table } from '../../table.ts'
import { allPages, type ConnectOptions, connect } from '../client/api.ts'
import { forEach } from '../each.ts'
import { given } from './sessions.ts'

interface Volume {
  name: string
  status: string
  limit_mb: number | null
  size_bytes: number | null
  writer_session_id: string | null
  created_at: string
}

export interface VolumeOptions extends ConnectOptions {
  json?: boolean
  iso?: boolean
  size?: number
}

export async function createVolume(name: string, options: VolumeOptions): Promise<number> {
  const limit_mb = options.size === undefined ? undefined : Math.round(options.size)
  const connection = await connect(options)
  const volume = await connection.json<Volume>('POST', '/v1/volumes', given({ name, limit_mb }))
  print(options.json, volume, () => volume.name)
  return 0
}

export async function listVolumes(options: VolumeOptions): Promise<number> {
  const volumes = await allPages<Volume>(await connect(options), '/v1/volumes', 'volumes')
  print(options.json, volumes, () =>
    table(
      [
        { title: 'NAME', min: 8 },
        { title: 'STATUS', drop: 3 },
        'LIMIT',
        { title: 'WRITER', drop: 2 },
        { title: 'CREATED', drop: 1 },
      ],
      volumes.map((volume) => [
        volume.name,
        volume.status,
        limitText(volume),
        volume.writer_session_id,
        timeText(volume.created_at, options),
      ]),
    ),
  )
  return 0
}

export async function getVolume(name: string, options: VolumeOptions): Promise<number> {
  const path = `/v1/volumes/${encodeURIComponent(name)}`
  const volume = await (await connect(options)).json<Volume>('GET', path)
  print(options.json, volume, () =>
    facts([
      ['name', volume.name],
      ['status', volume.status],
      ['limit', limitText(volume)],
      ['size', volume.size_bytes === null ? undefined : sizeText(volume.size_bytes)],
      ['writer', volume.writer_session_id],
      ['created', timeText(volume.created_at, options)],
    ]),
  )
  return 0
}

export async function deleteVolumes(names: readonly string[], options: VolumeOptions): Promise<number> {
  const connection = await connect(options)
  return forEach(names, options, async (name) => {
    await connection.json('DELETE', `/v1/volumes/${encodeURIComponent(name)}`)
    return { facts: { name, deleted: true }, text: `${name} deleted` }
  })
}

function limitText({ limit_mb: limit }: Volume): string {
  return limit === null ? 'not limited' : sizeText(limit * 1_048_576)
}
