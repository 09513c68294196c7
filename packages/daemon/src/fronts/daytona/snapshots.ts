import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import type { SnapshotRow } from '../../store/index.ts'
import { notSupported, parsed } from '../shared/request.ts'
import { type Call, type Entry, found, optional } from './entry.ts'
import { viewOf } from './views.ts'

const snapshotKind = 'snapshot'
const most = 1000

const nameBody = z.object({ name: z.string().min(1).max(200) })

export function snapshotRoutes(entry: Entry): void {
  entry.add('POST', '/api/sandbox/:id/snapshot', 'exec', async (call) => {
    const { caller, place, signal } = call
    const { name } = parsed(nameBody, call.body)
    const session = await found(call)
    await claimName(call, name)
    try {
      const row = await place.services.sessions.snapshots.create(caller, session.id, { name, signal })
      await place.records.put(caller.projectId, snapshotKind, name, { id: row.id })
    } catch (error) {
      await place.records.delete(caller.projectId, snapshotKind, name)
      throw error
    }
    return viewOf(place, session)
  })

  entry.add('GET', '/api/snapshots', 'read', async (call) => {
    const page = Number(optional(call, 'page') ?? 1)
    const limit = Math.min(Number(optional(call, 'limit') ?? 100), most)
    if (!Number.isInteger(page) || page < 1 || !Number.isInteger(limit) || limit < 1)
      throw new SandboxError('invalid_argument', 'page and limit must be whole numbers of at least 1')
    const name = optional(call, 'name')
    const source = optional(call, 'sourceSandboxId')
    const rows = await call.place.services.sessions.snapshots.list(call.caller, {
      sessionId: source,
      limit: most,
    })
    const all = [
      ...(source === undefined ? await imageViews(call) : []),
      ...rows.map((row) => snapshotView(call, row)),
    ].filter((view) => name === undefined || view.name.includes(name))
    return {
      items: all.slice((page - 1) * limit, page * limit),
      total: all.length,
      page,
      totalPages: Math.max(1, Math.ceil(all.length / limit)),
    }
  })

  entry.add('GET', '/api/snapshots/:name', 'read', async (call) => {
    const name = call.params.name!
    const row = await snapshotNamed(call, name)
    if (row) return snapshotView(call, row)
    const image = (await imageViews(call)).find((view) => view.name === name)
    if (image) return image
    throw new SandboxError('not_found', `Snapshot with ID or name ${name} not found`)
  })

  entry.add('DELETE', '/api/snapshots/:name', 'exec', async (call) => {
    const { caller, place, params } = call
    const row = await snapshotNamed(call, params.name!)
    if (!row) throw new SandboxError('not_found', `Snapshot with ID or name ${params.name} not found`)
    await place.services.sessions.snapshots.delete(caller, row.id)
    if (row.name !== null) await place.records.delete(caller.projectId, snapshotKind, row.name)
  })

  entry.add('POST', '/api/snapshots', 'exec', async () => {
    throw notSupported('Creating a snapshot from an image')
  })
  for (const word of ['activate', 'deactivate'])
    entry.add('POST', `/api/snapshots/:name/${word}`, 'exec', async (call) => {
      const row = await snapshotNamed(call, call.params.name!)
      if (!row) throw new SandboxError('not_found', `Snapshot ${call.params.name} not found`)
      if (word === 'deactivate') throw notSupported('Deactivating a snapshot')
      return snapshotView(call, row)
    })
}

/** The caller's snapshot with this id or name. Our own API allows equal names; then the newest counts. */
export async function snapshotNamed(
  { place, caller }: Call,
  idOrName: string,
): Promise<SnapshotRow | undefined> {
  const { snapshots } = place.services.sessions
  const claim = await place.records.get<{ id?: string }>(caller.projectId, snapshotKind, idOrName)
  const rows = await snapshots.list(caller, { limit: most })
  return rows.find(({ id, name }) => id === (claim?.id ?? idOrName) || id === idOrName || name === idOrName)
}

/** Reserves a name, because the vendor's names are unique. Names of deleted snapshots are free again. */
async function claimName(call: Call, name: string): Promise<void> {
  const { place, caller } = call
  if (await place.records.insert(caller.projectId, snapshotKind, name, {})) return
  const claim = await place.records.get<{ id?: string }>(caller.projectId, snapshotKind, name)
  if (claim?.id !== undefined && !(await snapshotNamed(call, name))) return
  throw new SandboxError('conflict', `Snapshot with name ${name} already exists`)
}

function snapshotView({ caller }: Call, row: SnapshotRow) {
  const createdAt = new Date(row.created_at).toISOString()
  return {
    id: row.id,
    organizationId: caller.projectId,
    general: false,
    name: row.name ?? row.id,
    imageName: row.image,
    state: 'active',
    size: row.size_bytes === null ? null : row.size_bytes / 2 ** 30,
    entrypoint: null as string[] | null,
    cpu: 0,
    gpu: 0,
    mem: 0,
    disk: 0,
    errorReason: null as string | null,
    createdAt,
    updatedAt: createdAt,
    lastUsedAt: null as string | null,
    sourceSandboxId: row.session_id as string | null,
  }
}

/** Shows the allowed images as snapshots of every project. */
async function imageViews({ caller, place }: Call) {
  const { allowed_images, defaults } = await place.services.sessions.rules(caller)
  const createdAt = new Date(0).toISOString()
  return allowed_images.map((image) => ({
    id: image,
    organizationId: caller.projectId,
    general: true,
    name: image,
    imageName: image,
    state: 'active',
    size: null as number | null,
    entrypoint: null as string[] | null,
    cpu: defaults.cpu_limit,
    gpu: 0,
    mem: defaults.memory_mb / 1024,
    disk: 0,
    errorReason: null as string | null,
    createdAt,
    updatedAt: createdAt,
    lastUsedAt: null as string | null,
    sourceSandboxId: null as string | null,
  }))
}
