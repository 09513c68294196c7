import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import { z } from 'zod'
import type { Caller } from '../../keys/index.ts'
import type { Session } from '../../sessions/index.ts'
import { notSupported, parsed } from '../shared/request.ts'
import { allow } from '../shared/route.ts'
import { everything, finished } from '../shared/sessions.ts'
import { createSandbox, openPorts, overrides, refuseAbsent } from './create.ts'
import { type Entry, frontLabel, frontName, type Kept, type VercelRoute } from './entry.ts'
import { changeNetwork } from './network.ts'
import { removeSnapshot } from './snapshots.ts'
import { routesOf, sandboxView, sessionView } from './views.ts'

const mostInPage = 100

const listQuery = z.object({
  limit: z.coerce.number().int().min(1).max(mostInPage).optional(),
  sortBy: z.enum(['createdAt', 'name', 'statusUpdatedAt', 'currentSnapshotSizeBytes']).optional(),
  sortOrder: z.enum(['asc', 'desc']).optional(),
  namePrefix: z.string().optional(),
  cursor: z.string().optional(),
  tags: z.union([z.string(), z.array(z.string())]).optional(),
})

const patchBody = overrides.omit({ name: true, env: true })

export function sandboxRoutes(entry: Entry): VercelRoute[] {
  const { sessions } = entry.services

  const whole = async (session: Session, kept: Kept, resumed?: boolean) => ({
    sandbox: sandboxView(session, kept),
    session: sessionView(entry, session),
    routes: await routesOf(entry, session),
    resumed,
  })

  const create = async (call: Parameters<VercelRoute['handle']>[0]) => {
    const { session, kept } = await createSandbox(entry, call)
    return whole(session, kept)
  }

  return [
    { method: 'POST', path: '/v3/sandboxes', scope: 'exec', handle: create },
    { method: 'POST', path: '/v2/sandboxes', scope: 'exec', handle: create },
    {
      method: 'GET',
      path: '/v2/sandboxes',
      scope: 'read',
      async handle({ caller, query }) {
        const { limit = mostInPage, cursor, ...filter } = parsed(listQuery, query)
        const all = await matching(entry, caller, filter)
        const start = cursor === undefined ? 0 : all.findIndex(({ id }) => id === cursor) + 1
        if (cursor !== undefined && start === 0)
          throw new SandboxError('invalid_argument', 'The cursor is not valid.')
        const page = all.slice(start, start + limit)
        const more = start + limit < all.length
        const views = await Promise.all(
          page.map(async (session) => sandboxView(session, await entry.kept(session))),
        )
        return { sandboxes: views, pagination: { count: views.length, next: more ? page.at(-1)!.id : null } }
      },
    },
    {
      method: 'GET',
      path: '/v2/sandboxes/:name',
      scope: 'read',
      async handle({ caller, params, query, request }) {
        const session = await entry.byName(caller, params.name!)
        const kept = await entry.kept(session)
        if (query.resume !== 'true' || session.status === 'running') return whole(session, kept, false)
        request.changes = true
        allow(caller, 'exec')
        await sessions.start(caller, session.id)
        return whole(await sessions.setLifetime(caller, session.id, kept.timeoutMs), kept, true)
      },
    },
    {
      method: 'PATCH',
      path: '/v2/sandboxes/:name',
      scope: 'exec',
      async handle({ caller, params, body }) {
        const changes = parsed(patchBody, body)
        refuseAbsent(changes)
        const session = await entry.byName(caller, params.name!)
        const { vcpus } = changes.resources ?? {}
        if (vcpus !== undefined && vcpus !== session.cpu)
          throw notSupported('Changing the resources of a sandbox')
        if (changes.networkPolicy) await changeNetwork(entry, caller, session, changes.networkPolicy)
        if (changes.ports) await openPorts(entry, caller, session, changes.ports)
        if (changes.tags) await replaceTags(entry, caller, session, changes.tags)
        const before = await entry.kept(session)
        if (changes.persistent === false && before.persistent)
          throw notSupported('Changing a persistent sandbox to a non-persistent one')
        const kept: Kept = {
          ...before,
          timeoutMs:
            changes.timeout === undefined ? before.timeoutMs : Math.min(changes.timeout, entry.longestMs),
          snapshotExpirationMs: changes.snapshotExpiration ?? before.snapshotExpirationMs,
        }
        await entry.keep(session, kept)
        const changed = await sessions.get(caller, session.id)
        return { sandbox: sandboxView(changed, kept), routes: await routesOf(entry, changed) }
      },
    },
    {
      method: 'DELETE',
      path: '/v2/sandboxes/:name',
      scope: 'exec',
      async handle({ caller, params, query }) {
        const session = await entry.byName(caller, params.name!)
        const kept = await entry.kept(session)
        const ended = await sessions.destroy(caller, session.id).catch(async (error: unknown) => {
          // If the row has ended, reconciliation removes the rest. A retry would get 404, so report success.
          if ((await sessions.get(caller, session.id)).live === 0) return true
          throw error
        })
        // A concurrent request may have deleted it first.
        if (!ended) await entry.byName(caller, params.name!)
        if (query.deleteOrphanSnapshots === 'true') await purge(entry, caller, session)
        return { sandbox: sandboxView(await sessions.get(caller, session.id), kept) }
      },
    },
    {
      method: 'POST',
      path: '/v2/sandboxes/:name/fork',
      scope: 'exec',
      async handle({ caller, params, body, signal }) {
        const asked = parsed(overrides, body)
        refuseAbsent(asked)
        if (asked.env) throw notSupported('Changing environment variables in a fork')
        if (asked.resources?.vcpus !== undefined) throw notSupported('Changing resources in a fork')
        if (asked.image ?? asked.runtime) throw notSupported('Changing the image in a fork')
        const origin = await entry.byName(caller, params.name!)
        if (asked.networkPolicy) throw notSupported('Changing the network policy in a fork')
        const copy = await forkOf(entry, caller, origin, asked.name ?? `sandbox-${randomId(10)}`, signal)
        const rest = async () => {
          const before = await entry.kept(origin)
          const kept = { ...before, timeoutMs: asked.timeout || before.timeoutMs }
          await entry.keep(copy, kept)
          await sessions.setLifetime(caller, copy.id, kept.timeoutMs)
          const ports = (await routesOf(entry, origin)).map(({ port }) => port)
          await openPorts(entry, caller, copy, asked.ports ?? ports)
          if (asked.tags) await replaceTags(entry, caller, copy, asked.tags)
          return whole(await sessions.get(caller, copy.id), kept)
        }
        return finished(entry.services, caller, copy, rest, signal)
      },
    },
  ]
}

/** Copies the current disk. Starts a stopped sandbox for that. */
async function forkOf(
  entry: Entry,
  caller: Caller,
  origin: Session,
  name: string,
  signal: AbortSignal,
): Promise<Session> {
  const { sessions } = entry.services
  const asleep = origin.status !== 'running'
  if (asleep) await sessions.start(caller, origin.id)
  try {
    const [copy] = await sessions.snapshots.fork(caller, origin.id, { count: 1, names: [name], signal })
    if (copy === undefined || copy instanceof Error) throw copy
    return copy
  } finally {
    if (asleep) await sessions.stop(caller, origin.id)
  }
}

async function matching(
  entry: Entry,
  caller: Caller,
  filter: Omit<z.infer<typeof listQuery>, 'limit' | 'cursor'>,
): Promise<Session[]> {
  const { sortBy = 'createdAt', sortOrder = 'desc', namePrefix = '' } = filter
  const given = filter.tags === undefined ? [] : [filter.tags].flat()
  const labels = Object.fromEntries(
    given.map((tag) => [tag.slice(0, tag.indexOf(':')), tag.slice(tag.indexOf(':') + 1)]),
  )
  const { sessions } = entry.services
  const all = await everything((options) =>
    sessions.list(caller, {
      labels: { ...labels, [frontLabel]: frontName },
      status: ['creating', 'running', 'paused', 'stopped', 'crashed'],
      ...options,
    }),
  )
  const found = all.filter((session) => sessions.isHere(session) && session.name?.startsWith(namePrefix))
  const keyOf = (session: Session) =>
    sortBy === 'name' ? session.name! : sortBy === 'statusUpdatedAt' ? session.status_at : session.created_at
  const order = sortOrder === 'asc' ? 1 : -1
  return found.sort((a, b) => order * (compare(keyOf(a), keyOf(b)) || compare(a.id, b.id)))
}

function compare<T extends string | number>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0
}

async function replaceTags(
  entry: Entry,
  caller: Caller,
  session: Session,
  tags: Readonly<Record<string, string>>,
): Promise<void> {
  const gone = Object.keys(JSON.parse(session.labels) as object).map((key) => [key, null] as const)
  await entry.services.sessions.setLabels(caller, session.id, {
    ...Object.fromEntries(gone),
    ...tags,
    [frontLabel]: frontName,
  })
}

/** Removes snapshots of a deleted sandbox, unless another sandbox was created from them. */
async function purge(entry: Entry, caller: Caller, session: Session): Promise<void> {
  const { snapshots } = entry.services.sessions
  const used = new Set((await matching(entry, caller, {})).map(({ snapshot_id: id }) => id))
  const own = await everything((options) => snapshots.list(caller, { sessionId: session.id, ...options }))
  for (const { id } of own) if (!used.has(id)) await removeSnapshot(entry, caller, id)
}
