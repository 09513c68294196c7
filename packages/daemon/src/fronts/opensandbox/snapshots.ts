import { SandboxError } from '@sandkasten/sdk'
import { parsed } from '../shared/request.ts'
import { everything } from '../shared/sessions.ts'
import type { Entry } from './entry.ts'
import { pageOf, statesAsked } from './pages.ts'
import * as schemas from './schemas.ts'

type Row = Awaited<ReturnType<Entry['services']['sessions']['snapshots']['get']>>

/** Snapshots. A create responds when the snapshot is complete, so all are `Ready`. */
export function snapshotRoutes(entry: Entry): void {
  const { sessions } = entry.services
  const { snapshots } = sessions

  entry.lifecycle('POST', '/sandboxes/:id/snapshots', 'exec', async ({ caller, id, body, reply, signal }) => {
    const { name } = parsed(schemas.snapshotBody, body)
    const { status } = await entry.find(caller, id)
    if (status !== 'running') throw new SandboxError('conflict', `Sandbox ${id} is not running.`)
    const row = await snapshots.create(caller, id, { name, signal })
    reply.code(202)
    return view(row)
  })

  entry.lifecycle('GET', '/snapshots', 'read', async (call) => {
    const { sandboxId, name } = call.query
    const states = statesAsked(call)
    const sessionId = typeof sandboxId === 'string' ? sandboxId : undefined
    const all = await everything((options) => snapshots.list(call.caller, { sessionId, ...options }))
    const wanted = all.filter(
      (row) =>
        sessions.isHere(row) &&
        (name === undefined || row.name === name) &&
        (states === undefined || states.includes('Ready')),
    )
    const { items, pagination } = pageOf(call, wanted)
    return { items: items.map(view), pagination }
  })

  entry.lifecycle('GET', '/snapshots/:snapshot', 'read', async ({ caller, params }) =>
    view(await snapshots.get(caller, params.snapshot!)),
  )

  entry.lifecycle('DELETE', '/snapshots/:snapshot', 'exec', async ({ caller, params, reply }) => {
    await snapshots.delete(caller, params.snapshot!)
    reply.code(204)
  })
}

function view(row: Row): object {
  const createdAt = new Date(row.created_at).toISOString()
  return {
    id: row.id,
    sandboxId: row.session_id,
    name: row.name ?? undefined,
    status: { state: 'Ready', reason: 'snapshot_ready', lastTransitionAt: createdAt },
    createdAt,
  }
}
