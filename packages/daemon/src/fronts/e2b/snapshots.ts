import { SandboxError } from '@sandkasten/sdk'
import { cursorOf, placeOf } from '../../http/page-cursor.ts'
import { parsed } from '../shared/request.ts'
import type { Entry } from './entry.ts'
import type { Sandboxes } from './lifecycle.ts'
import * as schemas from './schemas.ts'

/** Snapshots, which E2B also calls templates. The images that the configuration allows are templates too. */
export function snapshotRoutes(entry: Entry, sandboxes: Sandboxes): void {
  const { place } = entry
  const { sessions } = place.services

  entry.add('POST', ['/sandboxes/:id/snapshots'], 'exec', async ({ caller, id, request, reply }) => {
    const { name } = parsed(schemas.snapshotBody, request.body)
    await sandboxes.find(caller, id)
    const row = await sessions.snapshots.create(caller, id, { name })
    reply.code(201)
    return snapshotView(row)
  })
  entry.add('GET', ['/snapshots'], 'read', async ({ caller, request, reply }) => {
    const { sandboxID, name, limit = 100, nextToken } = parsed(schemas.snapshotQuery, request.query)
    const rows = await sessions.snapshots.list(caller, {
      limit: limit + 1,
      sessionId: sandboxID,
      after: placeOf(nextToken),
    })
    const page = rows.slice(0, limit)
    if (rows.length > limit) reply.header('x-next-token', cursorOf(page.at(-1)!))
    return page.filter((row) => name === undefined || row.name === name || row.id === name).map(snapshotView)
  })
  entry.add('DELETE', ['/templates/:id'], 'exec', async ({ caller, id }) => {
    if (!(await sessions.snapshots.delete(caller, id)))
      throw new SandboxError('not_found', `The template ${id} was not found.`)
  })
  entry.add('GET', ['/templates'], 'read', async ({ caller }) =>
    (await sessions.rules(caller)).allowed_images.map((image) => ({
      templateID: image,
      buildID: image,
      aliases: [image],
      names: [image],
      public: false,
      envdVersion: '0.6.4',
    })),
  )
  entry.add('GET', ['/templates/aliases/:id'], 'read', async ({ caller, id }) => {
    if (id !== 'base' && !(await sessions.rules(caller)).allowed_images.includes(id))
      throw new SandboxError('not_found', `The alias ${id} was not found.`)
    return { templateID: id, public: false }
  })
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const)
    entry.add(method, unsupported, 'read', async () => {
      throw new SandboxError(
        'unsupported',
        'Templates, secrets and volumes are supported only as far as sandboxes and snapshots need them.',
        { hint: 'docs/fronts.md lists what this front supports.' },
      )
    })
}

/** Parts of E2B's API that this front does not have. */
const unsupported = [
  '/v2/templates',
  '/v2/templates/*',
  '/v3/templates',
  '/v3/templates/*',
  '/templates/*',
  '/secrets',
  '/secrets/*',
  '/volumes',
  '/volumes/*',
  '/volumecontent/*',
]

function snapshotView({ id, name }: { id: string; name: string | null }): object {
  return { snapshotID: id, names: name === null ? [] : [name] }
}
