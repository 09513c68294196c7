import { z } from 'zod'
import { cursorOf, placeOf } from '../../http/page-cursor.ts'
import type { Services } from '../../http/services.ts'
import type { Volume } from '../../sessions/index.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { iso } from '../views.ts'

const tag = 'volumes'
const params = z.object({ name: z.string() })

export function volumeRoutes({ sessions }: Services): Route[] {
  const { volumes } = sessions
  return [
    route({
      id: 'createVolume',
      method: 'POST',
      path: '/v1/volumes',
      access: 'exec',
      tag,
      summary: 'Create a volume: a folder that outlives sessions. Sessions mount it with volumes.',
      body: z.strictObject({
        name: schemas.volumeName.describe('Unique in the project.'),
        limit_mb: z
          .int()
          .positive()
          .optional()
          .describe('The most that the volume can hold. Default: defaults.volume_limit_mb.'),
      }),
      answer: { status: 201, description: 'The volume.', schema: schemas.volume },
      handle: async ({ caller, body }) =>
        view(await volumes.create(caller, { name: body.name, limitMb: body.limit_mb })),
    }),
    route({
      id: 'listVolumes',
      method: 'GET',
      path: '/v1/volumes',
      access: 'read',
      tag,
      summary: 'List the project’s volumes, newest first, without their sizes.',
      query: z.strictObject({ limit: schemas.limit.optional(), cursor: z.string().optional() }),
      answer: {
        description: 'A page of volumes.',
        schema: z.object({ volumes: z.array(schemas.volume), next_cursor: z.string().optional() }),
      },
      async handle({ caller, query }) {
        const limit = query.limit ?? 100
        const found = await volumes.list(caller, { limit: limit + 1, after: placeOf(query.cursor) })
        const page = found.slice(0, limit)
        return {
          volumes: page.map(view),
          next_cursor: found.length > limit ? cursorOf(page.at(-1)!.row) : undefined,
        }
      },
    }),
    route({
      id: 'getVolume',
      method: 'GET',
      path: '/v1/volumes/{name}',
      access: 'read',
      tag,
      summary: 'Get a volume with its size.',
      params,
      answer: { description: 'The volume.', schema: schemas.volume },
      handle: async ({ caller, params }) => view(await volumes.get(caller, params.name)),
    }),
    route({
      id: 'deleteVolume',
      method: 'DELETE',
      path: '/v1/volumes/{name}',
      access: 'exec',
      tag,
      summary: 'Delete a volume and its content. Refused while a session, even a stopped one, mounts it.',
      params,
      answer: { description: 'Done.', schema: z.object({ deleted: z.boolean() }) },
      async handle({ caller, params }) {
        await volumes.delete(caller, params.name)
        return { deleted: true }
      },
    }),
  ]
}

function view({ row, sizeBytes, writer }: Volume): z.infer<typeof schemas.volume> {
  return {
    name: row.name,
    status: row.state === 'lost' ? 'lost' : 'ready',
    limit_mb: row.limit_mb,
    size_bytes: sizeBytes ?? null,
    writer_session_id: writer ?? null,
    created_at: iso(row.created_at),
  }
}
