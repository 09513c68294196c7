import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { cursorOf, placeOf } from '../../api/views.ts'
import type { Caller } from '../../keys/index.ts'
import { parsed, type VercelDesk, type VercelRoute } from './desk.ts'
import { running } from './sessions.ts'
import { region, sessionView, sidOf } from './views.ts'

/** What the vendor knows of a snapshot that ours does not have. */
interface KeptSnapshot {
  sid: string
  expiresAt?: number
}

const listQuery = z.looseObject({
  name: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(100).default(50),
  cursor: z.string().optional(),
})

type Row = Awaited<ReturnType<VercelDesk['services']['sessions']['snapshots']['get']>>

export function snapshotRoutes(desk: VercelDesk): VercelRoute[] {
  const { sessions } = desk.services
  const { snapshots } = sessions

  const view = async (caller: Caller, row: Row, status: 'created' | 'deleted' = 'created') => {
    const kept = await desk.place.records.get<KeptSnapshot>(caller.projectId, 'snapshot', row.id)
    return {
      id: row.id,
      sourceSessionId: kept?.sid ?? `sbx_${row.session_id}_1`,
      region,
      status,
      sizeBytes: row.size_bytes ?? 0,
      createdAt: row.created_at,
      updatedAt: row.created_at,
      ...(kept?.expiresAt === undefined ? {} : { expiresAt: kept.expiresAt }),
    }
  }

  /** One whose time is over is gone, for whoever looks first. */
  const found = async (caller: Caller, id: string): Promise<Row> => {
    const row = await snapshots.get(caller, id)
    const kept = await desk.place.records.get<KeptSnapshot>(caller.projectId, 'snapshot', id)
    if (kept?.expiresAt === undefined || kept.expiresAt > Date.now()) return row
    await remove(caller, id)
    throw new SandboxError('not_found', `There is no snapshot ${id}.`)
  }

  const remove = async (caller: Caller, id: string): Promise<boolean> => {
    const deleted = await snapshots.delete(caller, id)
    await desk.place.records.delete(caller.projectId, 'snapshot', id)
    return deleted
  }

  return [
    {
      method: 'POST',
      path: '/v2/sandboxes/sessions/:sid/snapshot',
      scope: 'exec',
      async handle(call) {
        const { caller } = call
        const { expiration } = parsed(
          z.looseObject({ expiration: z.number().nonnegative().optional() }),
          call.body,
        )
        const session = await running(desk, call)
        const row = await snapshots.create(caller, session.id, { incarnation: session.incarnation })
        const before = await desk.kept(session)
        const lifeMs = expiration ?? before.snapshotExpirationMs ?? 0
        const kept: KeptSnapshot = {
          sid: sidOf(session),
          ...(lifeMs > 0 ? { expiresAt: row.created_at + lifeMs } : {}),
        }
        await desk.place.records.put(caller.projectId, 'snapshot', row.id, kept)
        await desk.keep(session, { ...before, currentSnapshotId: row.id })
        // With the vendor a snapshot is also the end of the run.
        const stopped = await sessions.stop(caller, session.id, { incarnation: session.incarnation })
        return { snapshot: await view(caller, row), session: sessionView(desk, stopped) }
      },
    },
    {
      method: 'GET',
      path: '/v2/sandboxes/snapshots',
      scope: 'read',
      async handle({ caller, query }) {
        const { name, limit, cursor } = parsed(listQuery, query)
        const session = name === undefined ? undefined : await desk.findByName(caller, name)
        if (name !== undefined && !session) return { snapshots: [], pagination: { count: 0, next: null } }
        const rows = await snapshots.list(caller, {
          ...(session ? { sessionId: session.id } : {}),
          limit: limit + 1,
          after: placeOf(cursor),
        })
        const page = rows.slice(0, limit)
        const views = await Promise.all(page.map((row) => view(caller, row)))
        const now = Date.now()
        return {
          snapshots: views.filter(({ expiresAt }) => expiresAt === undefined || expiresAt > now),
          pagination: { count: page.length, next: rows.length > limit ? cursorOf(page.at(-1)!) : null },
        }
      },
    },
    {
      method: 'GET',
      path: '/v2/sandboxes/snapshots/:snapshotId',
      scope: 'read',
      handle: async ({ caller, params }) => ({
        snapshot: await view(caller, await found(caller, params.snapshotId!)),
      }),
    },
    {
      method: 'DELETE',
      path: '/v2/sandboxes/snapshots/:snapshotId',
      scope: 'exec',
      async handle({ caller, params }) {
        const row = await found(caller, params.snapshotId!)
        const shown = await view(caller, row, 'deleted')
        if (!(await remove(caller, row.id))) await found(caller, row.id)
        return { snapshot: shown }
      },
    },
  ]
}
