import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { cursorOf, placeOf } from '../../http/page-cursor.ts'
import type { Session } from '../../sessions/index.ts'
import { notSupported, parsed } from '../shared/request.ts'
import { everything, finished } from '../shared/sessions.ts'
import { createSandbox, leasesOf } from './create.ts'
import { type Call, type Entry, found, optional } from './entry.ts'
import { networkFor } from './network.ts'
import {
  liveStatuses,
  recordOf,
  remember,
  type SandboxRecord,
  type SandboxView,
  sandboxView,
  states,
  viewOf,
} from './views.ts'

const labelsBody = z.object({ labels: z.record(z.string(), z.string()) })
const networkBody = z.object({
  networkBlockAll: z.boolean().optional(),
  networkAllowList: z.string().optional(),
  domainAllowList: z.string().optional(),
})
const forkBody = z.object({ name: z.string().optional() })

/** The control plane: the list and the lifecycle of sandboxes. */
export function sandboxRoutes(entry: Entry): void {
  entry.add('POST', '/api/sandbox', 'exec', createSandbox)
  entry.add('GET', '/api/sandbox', 'read', listSandboxes)
  entry.add('GET', '/api/sandbox/paginated', 'read', pageOfSandboxes)
  entry.add('GET', '/api/sandbox/:id', 'read', async (call) => viewOf(call.place, await found(call)))

  entry.add('DELETE', '/api/sandbox/:id', 'exec', async (call) => {
    const session = await found(call)
    const view = await viewOf(call.place, session)
    const ended = await call.place.services.sessions.destroy(call.caller, session.id)
    if (!ended) throw new SandboxError('not_found', `Sandbox with ID or name ${call.params.id} not found`)
    return { ...view, state: 'destroyed', desiredState: 'destroyed' }
  })

  change(entry, 'start', (sessions, caller, id) => sessions.start(caller, id))
  change(entry, 'recover', (sessions, caller, id) => sessions.start(caller, id))
  change(entry, 'stop', (sessions, caller, id) => sessions.stop(caller, id), deleteEphemeral)
  change(entry, 'pause', (sessions, caller, id) => sessions.pause(caller, id))

  entry.add('POST', '/api/sandbox/:id/fork', 'exec', async (call) => {
    const { name } = parsed(forkBody, call.body)
    const session = await found(call)
    const [copy] = await call.place.services.sessions.snapshots.fork(call.caller, session.id, {
      count: 1,
      names: name === undefined ? [] : [name],
      signal: call.signal,
    })
    if (!copy || copy instanceof Error) throw copy ?? new SandboxError('internal', 'The fork failed.')
    const rest = async () => {
      const record = await remember(call.place, copy, await recordOf(call.place, session))
      return call.events.created(sandboxView(call.place, copy, record))
    }
    return finished(call.place.services, call.caller, copy, rest, call.signal)
  })

  entry.add('PUT', '/api/sandbox/:id/labels', 'exec', async (call) => {
    const { labels } = parsed(labelsBody, call.body)
    const session = await found(call)
    const before = Object.keys(JSON.parse(session.labels) as object)
    const changed = await call.place.services.sessions.setLabels(call.caller, session.id, {
      ...Object.fromEntries(before.map((key) => [key, null])),
      ...labels,
    })
    return { labels: JSON.parse(changed.labels) }
  })

  entry.add('POST', '/api/sandbox/:id/last-activity', 'exec', async (call) => {
    const session = await found(call)
    call.place.services.sessions.touch(session.id)
  })

  interval(entry, 'autostop', 0, (autoStopInterval) => ({ autoStopInterval }))
  interval(entry, 'autoarchive', 0, (autoArchiveInterval) => ({ autoArchiveInterval }))
  interval(entry, 'autodelete', -1, (autoDeleteInterval) => ({ autoDeleteInterval }))
  interval(entry, 'autopause', 0, (value) => {
    if (value > 0) throw notSupported('Automatic pausing')
    return {}
  })
  entry.add('POST', '/api/sandbox/:id/ttl/:value', 'exec', async (call) => {
    const session = await found(call)
    const value = wholeOf(call, 0)
    const changed = await call.place.services.sessions.setLeases(call.caller, session.id, {
      lifetimeMs: value === 0 ? null : value * 60_000,
      onLifetime: 'destroy',
    })
    return viewOf(call.place, changed)
  })

  entry.add('POST', '/api/sandbox/:id/network-settings', 'exec', async (call) => {
    const session = await found(call)
    const { sessions } = call.place.services
    const rules = await sessions.rules(call.caller)
    const settings = parsed(networkBody, call.body)
    const network = networkFor(settings, { rules, provider: sessions.provider })
    const changed =
      network === undefined || network === session.network
        ? session
        : await sessions.networks.set(call.caller, session.id, network)
    return viewOf(call.place, changed)
  })
  for (const path of ['archive', 'resize', 'backup', 'ssh-access'])
    entry.add('POST', `/api/sandbox/:id/${path}`, 'exec', async (call) => {
      await found(call)
      throw notSupported(unsupportedWords[path]!)
    })
  entry.add('GET', '/api/sandbox/:id/toolbox-proxy-url', 'read', async (call) => {
    await found(call)
    return { url: `${call.place.url}/toolbox` }
  })
  entry.add('GET', '/api/config', 'read', async ({ place, caller }) => ({
    version: place.services.version,
    proxyToolboxUrl: `${place.url}/toolbox`,
    defaultSnapshot: (await place.services.sessions.rules(caller)).default_image,
  }))
  for (const path of ['/api/volumes', '/api/secrets'])
    for (const method of ['GET', 'POST'] as const)
      entry.add(method, path, 'read', async () => {
        throw notSupported(path === '/api/volumes' ? 'A volume' : 'A secret')
      })
}

const unsupportedWords: Readonly<Record<string, string>> = {
  archive: 'Archiving',
  resize: 'Changing a sandbox’s size',
  backup: 'A backup',
  'ssh-access': 'SSH',
}

type Sessions = Call['place']['services']['sessions']

function change(
  entry: Entry,
  path: string,
  work: (sessions: Sessions, caller: Call['caller'], id: string) => Promise<Session>,
  then?: (call: Call, session: Session) => Promise<SandboxView | undefined>,
): void {
  entry.add('POST', `/api/sandbox/:id/${path}`, 'exec', async (call) => {
    const { id } = await found(call)
    const session = await work(call.place.services.sessions, call.caller, id)
    return (await then?.(call, session)) ?? viewOf(call.place, session)
  })
}

/** Deletes a sandbox that was created to end when it stops. */
async function deleteEphemeral(call: Call, session: Session): Promise<SandboxView | undefined> {
  if ((await recordOf(call.place, session)).autoDeleteInterval !== 0) return undefined
  const view = await viewOf(call.place, session)
  await call.place.services.sessions.destroy(call.caller, session.id)
  return { ...view, state: 'destroyed', desiredState: 'destroyed' }
}

function interval(
  entry: Entry,
  path: string,
  least: number,
  changes: (value: number) => Partial<SandboxRecord>,
): void {
  entry.add('POST', `/api/sandbox/:id/${path}/:value`, 'exec', async (call) => {
    const session = await found(call)
    const { sessions } = call.place.services
    const { longestIdleMs } = await sessions.rules(call.caller)
    const change = changes(wholeOf(call, least))
    const known = { ...(await recordOf(call.place, session)), ...change }
    const { ttlMs, onIdle, stoppedTtlMs } = leasesOf(known, longestIdleMs)
    const changed = await sessions.setLeases(call.caller, session.id, { ttlMs, onIdle, stoppedTtlMs })
    await remember(call.place, session, change)
    return viewOf(call.place, changed)
  })
}

function wholeOf(call: Call, least: number): number {
  const value = Number(call.params.value)
  if (Number.isSafeInteger(value) && value >= least) return value
  throw new SandboxError('invalid_argument', `${call.params.value} is not a number of minutes`)
}

/** Lists newest first. `nextCursor` continues the list. */
async function listSandboxes(call: Call) {
  const { place, caller } = call
  const limit = numberOf(call, 'limit', { most: 200 }) ?? 100
  const id = optional(call, 'id')
  const filter = filterOf(call)
  const rows =
    filter.status.length === 0
      ? []
      : await place.services.sessions.list(caller, {
          ...filter,
          limit: limit + 1,
          after: placeOf(optional(call, 'cursor')),
        })
  const page = rows.slice(0, limit)
  const shown = id === undefined ? page : page.filter((row) => row.id.startsWith(id))
  return {
    items: await Promise.all(shown.map((row) => viewOf(place, row))),
    nextCursor: rows.length > limit ? cursorOf(page.at(-1)!) : null,
  }
}

/** The same list with page numbers, for older SDKs. */
async function pageOfSandboxes(call: Call) {
  const { place, caller } = call
  const limit = numberOf(call, 'limit', { most: 200 }) ?? 100
  const page = numberOf(call, 'page', { most: 1_000_000 }) ?? 1
  const id = optional(call, 'id') ?? ''
  const filter = filterOf(call)
  const all =
    filter.status.length === 0
      ? []
      : await everything((options) => place.services.sessions.list(caller, { ...filter, ...options }))
  const found = all.filter((row) => row.id.startsWith(id))
  const shown = found.slice((page - 1) * limit, page * limit)
  return {
    items: await Promise.all(shown.map((row) => viewOf(place, row))),
    total: found.length,
    page,
    totalPages: Math.ceil(found.length / limit),
  }
}

function filterOf(call: Call) {
  const name = optional(call, 'name')
  const labels = labelsOf(optional(call, 'labels'))
  return {
    status: statusesOf(call.query.states),
    name,
    labels,
  }
}

function numberOf(call: Call, name: string, { most }: { most: number }): number | undefined {
  const text = optional(call, name)
  if (text === undefined) return undefined
  const value = Number(text)
  if (Number.isInteger(value) && value >= 1 && value <= most) return value
  throw new SandboxError('invalid_argument', `${name} must be a whole number from 1 to ${most}`)
}

/** Older SDKs send the text `null` for no labels. */
function labelsOf(text: string | undefined): Record<string, string> | undefined {
  if (text === undefined || text === 'null') return undefined
  try {
    return z.record(z.string(), z.string()).parse(JSON.parse(text))
  } catch (cause) {
    throw new SandboxError('invalid_argument', 'labels must be a JSON object of strings', { cause })
  }
}

function statusesOf(given: string | string[] | undefined): Session['status'][] {
  if (given === undefined || given === '') return [...liveStatuses]
  const wanted = Array.isArray(given) ? given : given.split(',')
  return liveStatuses.filter((status) => wanted.includes(states[status]))
}
