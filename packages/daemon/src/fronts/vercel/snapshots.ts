import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { cursorOf, placeOf } from '../../http/page-cursor.ts'
import type { Caller } from '../../keys/index.ts'
import { ifMissing, parsed } from '../shared/request.ts'
import type { Entry, VercelRoute } from './entry.ts'
import { running } from './sessions.ts'
import { region, sessionView, sidOf } from './views.ts'

/** The facts that only Vercel's API has about a snapshot. */
interface KeptSnapshot {
  sid: string
  expiresAt?: number
}

const kind = 'snapshot'

const listQuery = z.looseObject({
  name: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(100).default(50),
  cursor: z.string().optional(),
})

type Row = Awaited<ReturnType<Entry['services']['sessions']['snapshots']['get']>>

export function snapshotRoutes(entry: Entry): VercelRoute[] {
  const { sessions } = entry.services
  const { snapshots } = sessions

  const view = async (caller: Caller, row: Row, status: 'created' | 'deleted' = 'created') => {
    const kept = await entry.place.records.get<KeptSnapshot>(caller.projectId, kind, row.id)
    return {
      id: row.id,
      sourceSessionId: kept?.sid ?? `sbx_${row.session_id}_1`,
      region,
      status,
      sizeBytes: row.size_bytes ?? 0,
      createdAt: row.created_at,
      updatedAt: row.created_at,
      expiresAt: kept?.expiresAt,
    }
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
        const session = await running(entry, call)
        const row = await snapshots.create(caller, session.id, { incarnation: session.incarnation })
        const before = await entry.kept(session)
        const lifeMs = expiration ?? before.snapshotExpirationMs ?? 0
        const kept: KeptSnapshot = {
          sid: sidOf(session),
          expiresAt: lifeMs > 0 ? row.created_at + lifeMs : undefined,
        }
        await entry.place.records.put(caller.projectId, kind, row.id, kept)
        await entry.keep(session, { ...before, currentSnapshotId: row.id })
        // With the vendor, a snapshot also ends the run.
        const stopped = await sessions.stop(caller, session.id, { incarnation: session.incarnation })
        return { snapshot: await view(caller, row), session: sessionView(entry, stopped) }
      },
    },
    {
      method: 'GET',
      path: '/v2/sandboxes/snapshots',
      scope: 'read',
      async handle({ caller, query }) {
        const { name, limit, cursor } = parsed(listQuery, query)
        const session = name === undefined ? undefined : await entry.findByName(caller, name)
        if (name !== undefined && !session) return { snapshots: [], pagination: { count: 0, next: null } }
        const rows = await snapshots.list(caller, {
          sessionId: session?.id,
          limit: limit + 1,
          after: placeOf(cursor),
        })
        const page = rows.slice(0, limit)
        const views = await Promise.all(page.map((row) => view(caller, row)))
        return {
          snapshots: views.filter((one) => !isOver(one)),
          pagination: { count: page.length, next: rows.length > limit ? cursorOf(page.at(-1)!) : null },
        }
      },
    },
    {
      method: 'GET',
      path: '/v2/sandboxes/snapshots/:snapshotId',
      scope: 'read',
      handle: async ({ caller, params }) => ({
        snapshot: await view(caller, await findSnapshot(entry, caller, params.snapshotId!)),
      }),
    },
    {
      method: 'DELETE',
      path: '/v2/sandboxes/snapshots/:snapshotId',
      scope: 'exec',
      async handle({ caller, params }) {
        const row = await findSnapshot(entry, caller, params.snapshotId!)
        const shown = await view(caller, row, 'deleted')
        if (!(await removeSnapshot(entry, caller, row.id))) await findSnapshot(entry, caller, row.id)
        return { snapshot: shown }
      },
    },
  ]
}

/** An expired snapshot is removed by the first request that finds it. */
export async function findSnapshot(entry: Entry, caller: Caller, id: string): Promise<Row> {
  const row = await entry.services.sessions.snapshots.get(caller, id)
  const kept = await entry.place.records.get<KeptSnapshot>(caller.projectId, kind, id)
  if (!isOver(kept)) return row
  await removeSnapshot(entry, caller, id)
  throw new SandboxError('not_found', `There is no snapshot ${id}.`)
}

export async function removeSnapshot(entry: Entry, caller: Caller, id: string): Promise<boolean> {
  const deleted = await entry.services.sessions.snapshots.delete(caller, id)
  await entry.place.records.delete(caller.projectId, kind, id)
  return deleted
}

export async function removeExpired(entry: Entry): Promise<void> {
  const { keys, log, sessions } = entry.services
  for (const { id: projectId } of await keys.projects()) {
    const caller = { projectId, keyId: 'daemon', scopes: [], requestId: 'expired' }
    for (const { key, data } of await entry.place.records.list<KeptSnapshot>(projectId, kind)) {
      if (!isOver(data)) continue
      const row = await sessions.snapshots.get(caller, key).catch(ifMissing)
      if (!row) await entry.place.records.delete(projectId, kind, key)
      else if (sessions.isHere(row))
        await removeSnapshot(entry, caller, key).catch((error) =>
          log.warn({ snapshot: key, err: error }, 'cannot remove an expired snapshot; it will be retried'),
        )
    }
  }
}

function isOver(kept: Pick<KeptSnapshot, 'expiresAt'> | undefined): boolean {
  return kept?.expiresAt !== undefined && kept.expiresAt <= Date.now()
}
