import { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance } from 'fastify'
import { cursorOf, placeOf } from '../../http/page-cursor.ts'
import type { Scope } from '../../keys/index.ts'
import type { FrontPlace } from '../front.ts'
import { parsed } from '../shared/request.ts'
import { addRoute, type FrontCall, type FrontRoute } from '../shared/route.ts'
import type { Access } from './access.ts'
import { listSandboxes } from './list.ts'
import { logsOf, metricsOf } from './measures.ts'
import { networkOf } from './network.ts'
import type { Sandboxes } from './sandboxes.ts'
import * as schemas from './schemas.ts'

interface Call extends FrontCall {
  /** What the path names; empty where it names nothing. */
  readonly id: string
}

const ms = (seconds: number | undefined): number | undefined =>
  seconds === undefined ? undefined : seconds * 1000

/** E2B's control plane, the paths of both of its versions. */
export function controlRoutes(
  app: FastifyInstance,
  place: FrontPlace,
  access: Access,
  sandboxes: Sandboxes,
): void {
  const { sessions } = place.services
  const route = (
    method: FrontRoute['method'],
    paths: readonly string[],
    scope: Scope,
    handle: (call: Call) => Promise<unknown>,
  ) => {
    for (const url of paths)
      addRoute(app, place, {
        method,
        url,
        scope,
        callerOf: (request) => access.key(request),
        handle: async (call) => {
          const answer = await handle({ ...call, id: call.params.id ?? '' })
          if (answer === undefined) call.reply.code(204)
          return answer
        },
      })
  }

  route('POST', ['/sandboxes', '/v2/sandboxes'], 'exec', async ({ caller, request, reply, signal }) => {
    const body = parsed(schemas.createBody, request.body)
    refuseUnknown(body)
    const { answer, notes } = await sandboxes.create(caller, body, signal)
    if (notes.length > 0) reply.header('x-sandkasten-note', notes.join('; '))
    reply.code(201)
    return answer
  })
  route('GET', ['/v2/sandboxes'], 'read', async ({ caller, request, reply }) => {
    const { items, next } = await listSandboxes(
      place,
      sandboxes,
      caller,
      parsed(schemas.listQuery, request.query),
    )
    if (next !== undefined) reply.header('x-next-token', next)
    return items
  })
  // All that run: this one has no pages.
  route('GET', ['/sandboxes'], 'read', async ({ caller, request }) => {
    const query = { ...parsed(schemas.listQuery, request.query), state: 'running', limit: 1000 }
    const all: object[] = []
    for (let nextToken: string | undefined; ; ) {
      const { items, next } = await listSandboxes(place, sandboxes, caller, { ...query, nextToken })
      all.push(...items)
      if (next === undefined) return all
      nextToken = next
    }
  })
  route('GET', ['/sandboxes/:id'], 'read', async ({ caller, id }) =>
    sandboxes.detail(caller, await sandboxes.find(caller, id)),
  )
  route('DELETE', ['/sandboxes/:id'], 'exec', async ({ caller, id }) => {
    await sandboxes.kill(caller, id)
  })
  route(
    'POST',
    ['/sandboxes/:id/connect', '/v2/sandboxes/:id/connect'],
    'exec',
    async ({ caller, id, request, reply }) => {
      const { timeout, memory } = parsed(schemas.connectBody, request.body)
      const { resumed, answer } = await sandboxes.connect(caller, id, {
        timeoutMs: ms(timeout),
        reboot: memory === false,
      })
      reply.code(resumed ? 201 : 200)
      return answer
    },
  )
  route('POST', ['/sandboxes/:id/resume'], 'exec', async ({ caller, id, request, reply }) => {
    const { timeout } = parsed(schemas.resumeBody, request.body)
    const { resumed, answer } = await sandboxes.connect(caller, id, { timeoutMs: ms(timeout) })
    if (!resumed) throw new SandboxError('conflict', `The sandbox ${id} is running already.`)
    reply.code(201)
    return answer
  })
  route('POST', ['/sandboxes/:id/timeout'], 'exec', async ({ caller, id, request }) => {
    await sandboxes.setTimeout(caller, id, parsed(schemas.timeoutBody, request.body).timeout * 1000)
  })
  route('POST', ['/sandboxes/:id/refreshes'], 'exec', async ({ caller, id, request }) => {
    const { duration = 15 } = parsed(schemas.refreshBody, request.body)
    await sandboxes.find(caller, id)
    await sessions.extend(caller, id, Math.max(1, duration) * 1000)
  })
  route('POST', ['/sandboxes/:id/pause'], 'exec', async ({ caller, id, request }) => {
    await sandboxes.pause(caller, id, parsed(schemas.pauseBody, request.body).memory ?? true)
  })
  route('POST', ['/sandboxes/:id/fork'], 'exec', async ({ caller, id, request, reply, signal }) => {
    const { timeout, count } = parsed(schemas.forkBody, request.body)
    reply.code(201)
    return sandboxes.fork(caller, id, { count, timeoutMs: ms(timeout), signal })
  })
  route('PUT', ['/sandboxes/:id/network'], 'exec', async ({ caller, id, request }) => {
    const { allow_internet_access, ...network } = parsed(schemas.networkBody, request.body)
    const session = await sandboxes.find(caller, id)
    const { allowed_networks: allowed, defaults } = place.services.config
    const wanted = networkOf({ allow_internet_access, network }, allowed) ?? defaults.network_mode
    if (wanted !== session.network)
      throw new SandboxError(
        'invalid_argument',
        'The network of a sandbox cannot be changed while it lives here.',
        {
          hint: 'Give allowInternetAccess when you create it.',
        },
      )
  })
  route('GET', ['/sandboxes/:id/metrics'], 'read', async ({ caller, id, request }) => {
    const session = await sandboxes.find(caller, id)
    return metricsOf(place, session, parsed(schemas.metricsQuery, request.query))
  })
  route('GET', ['/sandboxes/metrics'], 'read', async ({ caller, request }) => {
    const ids = parsed(schemas.metricsOfQuery, request.query).sandbox_ids
    const all = await Promise.all(
      ids.map(async (id) => {
        // One that has ended meanwhile is left out, as one that does not run is.
        const session = await sandboxes.find(caller, id).catch(ifMissing)
        return [id, session && (await metricsOf(place, session))[0]] as const
      }),
    )
    return { sandboxes: Object.fromEntries(all.filter(([, metric]) => metric !== undefined)) }
  })
  route('GET', ['/sandboxes/:id/logs'], 'read', async ({ caller, id, request }) => {
    const { start, limit } = parsed(schemas.logsQuery, request.query)
    const session = await sandboxes.find(caller, id)
    const entries = await logsOf(place, session, { from: start ?? 0, limit, backward: false })
    return {
      logs: entries.map(({ timestamp, message }) => ({ timestamp, line: message })),
      logEntries: entries,
    }
  })
  route('GET', ['/v2/sandboxes/:id/logs'], 'read', async ({ caller, id, request }) => {
    const { cursor, limit, direction, level, search } = parsed(schemas.logsQuery, request.query)
    const backward = direction === 'backward'
    const session = await sandboxes.find(caller, id)
    // All that is told here is information.
    if (level === 'warn' || level === 'error') return { logs: [] }
    const from = cursor ?? (backward ? Number.MAX_SAFE_INTEGER : 0)
    return { logs: await logsOf(place, session, { from, limit, backward, search }) }
  })

  route('POST', ['/sandboxes/:id/snapshots'], 'exec', async ({ caller, id, request, reply }) => {
    const { name } = parsed(schemas.snapshotBody, request.body)
    await sandboxes.find(caller, id)
    const row = await sessions.snapshots.create(caller, id, name === undefined ? {} : { name })
    reply.code(201)
    return snapshotView(row)
  })
  route('GET', ['/snapshots'], 'read', async ({ caller, request, reply }) => {
    const { sandboxID, name, limit = 100, nextToken } = parsed(schemas.snapshotQuery, request.query)
    const rows = await sessions.snapshots.list(caller, {
      limit: limit + 1,
      sessionId: sandboxID,
      ...(nextToken === undefined ? {} : { after: placeOf(nextToken)! }),
    })
    const page = rows.slice(0, limit)
    if (rows.length > limit) reply.header('x-next-token', cursorOf(page.at(-1)!))
    return page.filter((row) => name === undefined || row.name === name || row.id === name).map(snapshotView)
  })
  route('DELETE', ['/templates/:id'], 'exec', async ({ caller, id }) => {
    if (!(await sessions.snapshots.delete(caller, id)))
      throw new SandboxError('not_found', `The template ${id} was not found.`)
  })
  route('GET', ['/templates'], 'read', async () =>
    place.services.config.allowed_images.map((image) => ({
      templateID: image,
      buildID: image,
      aliases: [image],
      names: [image],
      public: false,
      envdVersion: '0.6.4',
    })),
  )
  route('GET', ['/templates/aliases/:id'], 'read', async ({ id }) => {
    if (id !== 'base' && !place.services.config.allowed_images.includes(id))
      throw new SandboxError('not_found', `The alias ${id} was not found.`)
    return { templateID: id, public: false }
  })
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const)
    route(method, unsupported, 'read', async () => {
      throw new SandboxError(
        'unsupported',
        'Of templates, secrets and volumes, only what sandboxes and snapshots need is here.',
        { hint: 'See docs/fronts.md for what is spoken here.' },
      )
    })
}

/** Rooms of E2B's that are not here. */
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

function refuseUnknown({ volumeMounts, mcp, iam }: schemas.CreateBody): void {
  for (const [name, value] of Object.entries({ volumeMounts, mcp, iam }))
    if (value !== undefined && value !== null && Object.keys(value).length > 0)
      throw new SandboxError('invalid_argument', `${name} is not supported here.`, {
        hint: 'Leave it out. See docs/fronts.md for what is spoken here.',
      })
}

function ifMissing(error: unknown): undefined {
  if (!SandboxError.is(error, 'not_found')) throw error
  return undefined
}

function snapshotView({ id, name }: { id: string; name: string | null }): object {
  return { snapshotID: id, names: name === null ? [] : [name] }
}
