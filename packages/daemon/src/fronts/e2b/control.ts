import { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { cursorOf, placeOf } from '../../api/views.ts'
import type { Caller, Scope } from '../../keys/index.ts'
import type { FrontPlace } from '../front.ts'
import type { Access } from './access.ts'
import { listSandboxes } from './list.ts'
import { logsOf, metricsOf } from './measures.ts'
import { networkOf } from './network.ts'
import type { Sandboxes } from './sandboxes.ts'
import * as schemas from './schemas.ts'

interface Call {
  readonly caller: Caller
  readonly id: string
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

const { parse } = schemas
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
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    paths: string[],
    scope: Scope,
    handle: (call: Call) => Promise<unknown>,
  ) => {
    for (const url of paths)
      app.route({
        method,
        url,
        handler: async (request, reply) => {
          const caller = await access.key(request, scope)
          const { id = '' } = request.params as { id?: string }
          reply.header('x-request-id', request.id)
          const answer = await handle({ caller, id, request, reply })
          return answer === undefined ? reply.code(204).send() : reply.send(answer)
        },
      })
  }

  route('POST', ['/sandboxes', '/v2/sandboxes'], 'exec', async ({ caller, request, reply }) => {
    const body = parse(schemas.createBody, request.body)
    refuseUnknown(body)
    const answer = (await sandboxes.create(caller, body)) as { sandboxID: string }
    // Nobody was told of it.
    if (reply.raw.destroyed) await sessions.destroy(caller, answer.sandboxID)
    reply.code(201)
    return answer
  })
  route('GET', ['/v2/sandboxes'], 'read', async ({ caller, request, reply }) => {
    const { items, next } = await listSandboxes(
      place,
      sandboxes,
      caller,
      parse(schemas.listQuery, request.query),
    )
    if (next !== undefined) reply.header('x-next-token', next)
    return items
  })
  route('GET', ['/sandboxes'], 'read', async ({ caller, request }) => {
    const query = parse(schemas.listQuery, request.query)
    const { items } = await listSandboxes(place, sandboxes, caller, {
      ...query,
      state: 'running',
      limit: 1000,
    })
    return items
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
      const { timeout, memory } = parse(schemas.connectBody, request.body)
      const { resumed, answer } = await sandboxes.connect(caller, id, {
        timeoutMs: ms(timeout),
        reboot: memory === false,
      })
      reply.code(resumed ? 201 : 200)
      return answer
    },
  )
  route('POST', ['/sandboxes/:id/resume'], 'exec', async ({ caller, id, request, reply }) => {
    const { timeout } = parse(schemas.resumeBody, request.body)
    const { resumed, answer } = await sandboxes.connect(caller, id, { timeoutMs: ms(timeout) })
    if (!resumed) throw new SandboxError('conflict', `The sandbox ${id} is running already.`)
    reply.code(201)
    return answer
  })
  route('POST', ['/sandboxes/:id/timeout'], 'exec', async ({ caller, id, request }) => {
    await sandboxes.setTimeout(caller, id, parse(schemas.timeoutBody, request.body).timeout * 1000)
  })
  route('POST', ['/sandboxes/:id/refreshes'], 'exec', async ({ caller, id, request }) => {
    const { duration = 15 } = parse(schemas.refreshBody, request.body)
    await sandboxes.find(caller, id)
    await sessions.extend(caller, id, Math.max(1, duration) * 1000)
  })
  route('POST', ['/sandboxes/:id/pause'], 'exec', async ({ caller, id, request }) => {
    await sandboxes.pause(caller, id, parse(schemas.pauseBody, request.body).memory ?? true)
  })
  route('POST', ['/sandboxes/:id/fork'], 'exec', async ({ caller, id, request, reply }) => {
    const { timeout, count } = parse(schemas.forkBody, request.body)
    reply.code(201)
    return sandboxes.fork(caller, id, count ?? 1, ms(timeout))
  })
  route('PUT', ['/sandboxes/:id/network'], 'exec', async ({ caller, id, request }) => {
    const { allow_internet_access, ...network } = parse(schemas.networkBody, request.body)
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
  route('GET', ['/sandboxes/:id/metrics'], 'read', async ({ caller, id }) =>
    metricsOf(place, await sandboxes.find(caller, id)),
  )
  route('GET', ['/sandboxes/metrics'], 'read', async ({ caller, request }) => {
    const { sandbox_ids: given } = request.query as { sandbox_ids?: string | string[] }
    const ids = [given ?? []].flat().flatMap((text) => text.split(','))
    const all = await Promise.all(
      ids.map(async (id) => [id, (await metricsOf(place, await sandboxes.find(caller, id)))[0]] as const),
    )
    return { sandboxes: Object.fromEntries(all.filter(([, metric]) => metric !== undefined)) }
  })
  route('GET', ['/sandboxes/:id/logs'], 'read', async ({ caller, id }) => {
    const session = await sandboxes.find(caller, id)
    const entries = await logsOf(place, session)
    return {
      logs: entries.map(({ timestamp, message }) => ({ timestamp, line: message })),
      logEntries: entries,
    }
  })
  route('GET', ['/v2/sandboxes/:id/logs'], 'read', async ({ caller, id }) => ({
    logs: await logsOf(place, await sandboxes.find(caller, id)),
  }))

  route('POST', ['/sandboxes/:id/snapshots'], 'exec', async ({ caller, id, request, reply }) => {
    const { name } = parse(schemas.snapshotBody, request.body)
    await sandboxes.find(caller, id)
    const row = await sessions.snapshots.create(caller, id, name === undefined ? {} : { name })
    reply.code(201)
    return snapshotView(row)
  })
  route('GET', ['/snapshots'], 'read', async ({ caller, request, reply }) => {
    const { sandboxID, name, limit = 100, nextToken } = parse(schemas.snapshotQuery, request.query)
    const rows = await sessions.snapshots.list(caller, {
      limit: limit + 1,
      ...(sandboxID === undefined ? {} : { sessionId: sandboxID }),
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
  for (const path of unsupported)
    app.all(path, async (request) => {
      await access.key(request, 'read')
      throw notHere(path.split('/')[1]!)
    })
  app.setNotFoundHandler(async (request) => {
    throw new SandboxError(
      'not_found',
      `There is nothing at ${request.method} ${request.url.split('?')[0]}.`,
      {
        hint: 'See docs/fronts.md for what is spoken here.',
      },
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

function notHere(what: string): SandboxError {
  return new SandboxError('unsupported', `Of ${what}, only what sandboxes and snapshots need is here.`, {
    hint: 'See docs/fronts.md for what is spoken here.',
  })
}

function refuseUnknown({ volumeMounts, mcp, iam }: schemas.CreateBody): void {
  for (const [name, value] of Object.entries({ volumeMounts, mcp, iam }))
    if (value !== undefined && value !== null && Object.keys(value).length > 0)
      throw new SandboxError('invalid_argument', `${name} is not supported here.`, {
        hint: 'Leave it out. See docs/fronts.md for what is spoken here.',
      })
}

function snapshotView({ id, name }: { id: string; name: string | null }): object {
  return { snapshotID: id, names: name === null ? [] : [name] }
}
