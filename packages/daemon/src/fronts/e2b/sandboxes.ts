import { SandboxError } from '@sandkasten/sdk'
import { ifMissing, parsed } from '../shared/request.ts'
import type { Entry } from './entry.ts'
import type { Sandboxes } from './lifecycle.ts'
import { logsOf, metricsOf } from './metrics.ts'
import { networkFor } from './network.ts'
import { listSandboxes } from './sandbox-list.ts'
import * as schemas from './schemas.ts'

const ms = (seconds: number | undefined): number | undefined =>
  seconds === undefined ? undefined : seconds * 1000

/** Sandboxes in E2B's control plane, with the paths of both of its versions. */
export function sandboxRoutes(entry: Entry, sandboxes: Sandboxes): void {
  const { place } = entry
  const { sessions } = place.services

  entry.add('POST', ['/sandboxes', '/v2/sandboxes'], 'exec', async ({ caller, request, reply, signal }) => {
    const body = parsed(schemas.createBody, request.body)
    refuseUnknown(body)
    const { answer, notes } = await sandboxes.create(caller, body, signal)
    if (notes.length > 0) reply.header('x-sandkasten-note', notes.join('; '))
    reply.code(201)
    return answer
  })
  entry.add('GET', ['/v2/sandboxes'], 'read', async ({ caller, request, reply }) => {
    const { items, next } = await listSandboxes(
      place,
      sandboxes,
      caller,
      parsed(schemas.listQuery, request.query),
    )
    if (next !== undefined) reply.header('x-next-token', next)
    return items
  })
  // This version lists all running sandboxes, without pages.
  entry.add('GET', ['/sandboxes'], 'read', async ({ caller, request }) => {
    const query = { ...parsed(schemas.listQuery, request.query), state: 'running', limit: 1000 }
    const all: object[] = []
    for (let nextToken: string | undefined; ; ) {
      const { items, next } = await listSandboxes(place, sandboxes, caller, { ...query, nextToken })
      all.push(...items)
      if (next === undefined) return all
      nextToken = next
    }
  })
  entry.add('GET', ['/sandboxes/:id'], 'read', async ({ caller, id }) =>
    sandboxes.detail(caller, await sandboxes.find(caller, id)),
  )
  entry.add('DELETE', ['/sandboxes/:id'], 'exec', async ({ caller, id }) => {
    await sandboxes.kill(caller, id)
  })
  entry.add(
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
  entry.add('POST', ['/sandboxes/:id/resume'], 'exec', async ({ caller, id, request, reply }) => {
    const { timeout } = parsed(schemas.resumeBody, request.body)
    const { resumed, answer } = await sandboxes.connect(caller, id, { timeoutMs: ms(timeout) })
    if (!resumed) throw new SandboxError('conflict', `The sandbox ${id} is already running.`)
    reply.code(201)
    return answer
  })
  entry.add('POST', ['/sandboxes/:id/timeout'], 'exec', async ({ caller, id, request }) => {
    await sandboxes.setTimeout(caller, id, parsed(schemas.timeoutBody, request.body).timeout * 1000)
  })
  entry.add('POST', ['/sandboxes/:id/refreshes'], 'exec', async ({ caller, id, request }) => {
    const { duration = 15 } = parsed(schemas.refreshBody, request.body)
    await sandboxes.find(caller, id)
    await sessions.extend(caller, id, Math.max(1, duration) * 1000)
  })
  entry.add('POST', ['/sandboxes/:id/pause'], 'exec', async ({ caller, id, request }) => {
    await sandboxes.pause(caller, id, parsed(schemas.pauseBody, request.body).memory ?? true)
  })
  entry.add('POST', ['/sandboxes/:id/fork'], 'exec', async ({ caller, id, request, reply, signal }) => {
    const { timeout, count } = parsed(schemas.forkBody, request.body)
    reply.code(201)
    return sandboxes.fork(caller, id, { count, timeoutMs: ms(timeout), signal })
  })
  entry.add('PUT', ['/sandboxes/:id/network'], 'exec', async ({ caller, id, request }) => {
    const { allow_internet_access, ...network } = parsed(schemas.networkBody, request.body)
    const session = await sandboxes.find(caller, id)
    const rules = await sessions.rules(caller)
    const place = { rules, provider: sessions.provider }
    const wanted = networkFor({ allow_internet_access, network }, place) ?? rules.defaults.network_mode
    if (wanted === session.network) return
    const kept = await sessions.networks.withKeptHeaders(caller, wanted)
    await sessions.networks.set(caller, id, kept)
  })
  entry.add('GET', ['/sandboxes/:id/metrics'], 'read', async ({ caller, id, request }) => {
    const session = await sandboxes.find(caller, id)
    return metricsOf(place, session, parsed(schemas.metricsQuery, request.query))
  })
  entry.add('GET', ['/sandboxes/metrics'], 'read', async ({ caller, request }) => {
    const ids = parsed(schemas.metricsOfQuery, request.query).sandbox_ids
    const all = await Promise.all(
      ids.map(async (id) => {
        // Skip sandboxes that have ended or do not run.
        const session = await sandboxes.find(caller, id).catch(ifMissing)
        return [id, session && (await metricsOf(place, session))[0]] as const
      }),
    )
    return { sandboxes: Object.fromEntries(all.filter(([, metric]) => metric !== undefined)) }
  })
  entry.add('GET', ['/sandboxes/:id/logs'], 'read', async ({ caller, id, request }) => {
    const { start, limit } = parsed(schemas.logsQuery, request.query)
    const session = await sandboxes.find(caller, id)
    const entries = await logsOf(place, session, { from: start ?? 0, limit, backward: false })
    return {
      logs: entries.map(({ timestamp, message }) => ({ timestamp, line: message })),
      logEntries: entries,
    }
  })
  entry.add('GET', ['/v2/sandboxes/:id/logs'], 'read', async ({ caller, id, request }) => {
    const { cursor, limit, direction, level, search } = parsed(schemas.logsQuery, request.query)
    const backward = direction === 'backward'
    const session = await sandboxes.find(caller, id)
    // All entries have the level info.
    if (level === 'warn' || level === 'error') return { logs: [] }
    const from = cursor ?? (backward ? Number.MAX_SAFE_INTEGER : 0)
    return { logs: await logsOf(place, session, { from, limit, backward, search }) }
  })
}

function refuseUnknown({ volumeMounts, mcp, iam }: schemas.CreateBody): void {
  for (const [name, value] of Object.entries({ volumeMounts, mcp, iam }))
    if (value !== undefined && value !== null && Object.keys(value).length > 0)
      throw new SandboxError('invalid_argument', `${name} is not supported by this server.`, {
        hint: 'Leave it out. docs/fronts.md lists what this front supports.',
      })
}
