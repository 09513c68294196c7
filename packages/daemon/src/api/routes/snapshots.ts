import { z } from 'zod'
import { cursorOf, placeOf } from '../../http/page-cursor.ts'
import { problemOf, problemSchema } from '../../http/problems.ts'
import type { Services } from '../../http/services.ts'
import { incarnationOf } from '../incarnation.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { iso, sessionView } from '../views.ts'

const tag = 'snapshots'
const params = z.object({ snapshot_id: z.string() })

export function snapshotRoutes({ sessions }: Services): Route[] {
  const { snapshots } = sessions
  return [
    route({
      id: 'createSnapshot',
      method: 'POST',
      path: '/v1/sessions/{id}/snapshots',
      access: 'exec',
      tag,
      summary: 'Create a snapshot of the session’s disk. New sessions start from it with snapshot_id.',
      params: schemas.sessionParams,
      body: z.strictObject({ name: schemas.name.optional() }),
      answer: { status: 201, description: 'The snapshot.', schema: schemas.snapshot },
      handle: async ({ caller, params, body, signal, request }) =>
        view(
          await snapshots.create(caller, params.id, { name: body.name, signal, ...incarnationOf(request) }),
        ),
    }),
    route({
      id: 'listSnapshots',
      method: 'GET',
      path: '/v1/snapshots',
      access: 'read',
      tag,
      summary: 'List the project’s snapshots, newest first.',
      query: z.strictObject({
        session_id: z.string().optional(),
        limit: schemas.limit.optional(),
        cursor: z.string().optional(),
      }),
      answer: {
        description: 'A page of snapshots.',
        schema: z.object({ snapshots: z.array(schemas.snapshot), next_cursor: z.string().optional() }),
      },
      async handle({ caller, query }) {
        const limit = query.limit ?? 100
        const rows = await snapshots.list(caller, {
          sessionId: query.session_id,
          limit: limit + 1,
          after: placeOf(query.cursor),
        })
        const page = rows.slice(0, limit)
        return {
          snapshots: page.map(view),
          next_cursor: rows.length > limit ? cursorOf(page.at(-1)!) : undefined,
        }
      },
    }),
    route({
      id: 'getSnapshot',
      method: 'GET',
      path: '/v1/snapshots/{snapshot_id}',
      access: 'read',
      tag,
      summary: 'Get a snapshot.',
      params,
      answer: { description: 'The snapshot.', schema: schemas.snapshot },
      handle: async ({ caller, params }) => view(await snapshots.get(caller, params.snapshot_id)),
    }),
    route({
      id: 'deleteSnapshot',
      method: 'DELETE',
      path: '/v1/snapshots/{snapshot_id}',
      access: 'exec',
      tag,
      summary: 'Delete a snapshot. Sessions that were created from it are not affected.',
      params,
      answer: { description: 'Done.', schema: z.object({ deleted: z.boolean() }) },
      handle: async ({ caller, params }) => ({ deleted: await snapshots.delete(caller, params.snapshot_id) }),
    }),
    route({
      id: 'forkSession',
      method: 'POST',
      path: '/v1/sessions/{id}/fork',
      access: 'exec',
      tag,
      summary:
        'Fork a session into running copies with its current disk. A copy that failed is returned as a problem at its position.',
      params: schemas.sessionParams,
      body: z.strictObject({ count: z.int().min(1).max(100).optional() }),
      answer: {
        status: 201,
        description: 'The copies.',
        schema: z.object({ sessions: z.array(z.union([schemas.session, problemSchema])) }),
      },
      async handle({ caller, params, body, signal, request }) {
        const options = { count: body.count ?? 1, signal, ...incarnationOf(request) }
        const copies = await snapshots.fork(caller, params.id, options)
        return {
          sessions: copies.map((copy) =>
            copy instanceof Error ? problemOf(copy, caller.requestId) : sessionView(copy),
          ),
        }
      },
    }),
  ]
}

type Row = Awaited<ReturnType<Services['sessions']['snapshots']['get']>>

function view(row: Row): z.infer<typeof schemas.snapshot> {
  return {
    id: row.id,
    name: row.name,
    session_id: row.session_id,
    image: row.image,
    size_bytes: row.size_bytes,
    created_at: iso(row.created_at),
  }
}
