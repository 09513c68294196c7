import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { cursorOf, placeOf } from '../../http/page-cursor.ts'
import type { Services } from '../../http/services.ts'
import { incarnationOf } from '../incarnation.ts'
import { givenNetwork } from '../network.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { boundedPage, sessionView } from '../views.ts'

const tag = 'sessions'
const params = schemas.sessionParams

export function sessionRoutes({ sessions, events, streams }: Services): Route[] {
  return [
    route({
      id: 'createSession',
      method: 'POST',
      path: '/v1/sessions',
      access: 'exec',
      tag,
      summary: 'Create a session. Its sandbox is running when the response arrives.',
      body: schemas.createBody,
      answer: {
        status: 201,
        description: 'The session. The status is 200 when the idempotency key was used before.',
        schema: schemas.session,
      },
      async handle({ caller, body, request, reply }) {
        const idempotencyKey = idempotencyKeyOf(body.idempotency_key, request.headers['idempotency-key'])
        // A disconnect does not cancel the create. A client with an idempotency key can retry. Without a key, the session is
        // destroyed below.
        const gone = idempotencyKey === undefined ? goneBefore(reply.raw) : undefined
        const { session, repeat, notes } = await sessions.create(caller, {
          image: body.image,
          runtime: body.runtime,
          snapshotId: body.snapshot_id,
          name: body.name,
          labels: body.labels,
          env: body.env,
          limits: body.limits && {
            cpu: body.limits.cpu,
            memoryMb: body.limits.memory_mb,
            pids: body.limits.pids,
            diskMb: body.limits.disk_mb,
          },
          network: networkOf(body),
          user: body.user,
          tmp: body.tmp,
          volumes: body.volumes?.map(({ name, path, read_only: readOnly }) => ({ name, path, readOnly })),
          ttlMs: ms(body.ttl_seconds),
          onIdle: body.on_idle,
          lifetimeMs: ms(body.lifetime_seconds),
          onLifetime: body.on_lifetime,
          wakeOnUse: body.wake_on_use,
          idempotencyKey,
        })
        if (gone?.()) await sessions.destroy(caller, session.id)
        reply.code(repeat ? 200 : 201).header('location', `/v1/sessions/${session.id}`)
        return { ...sessionView(session), notes: notes.length > 0 ? [...notes] : undefined }
      },
    }),
    route({
      id: 'listSessions',
      method: 'GET',
      path: '/v1/sessions',
      access: 'read',
      tag,
      summary: 'List the project’s sessions, newest first.',
      query: z.strictObject({
        status: z.string().optional().describe('One or more, separated by commas.'),
        name: z.string().optional(),
        subject: schemas.subject.optional().describe('Only sessions that tokens of this subject created.'),
        label: z
          .union([z.string(), z.array(z.string())])
          .optional()
          .describe('`key=value`. Repeat it for more labels; all must match.'),
        limit: schemas.limit.optional().describe('Default 100.'),
        cursor: z.string().optional(),
      }),
      answer: { description: 'A page of sessions.', schema: schemas.sessionList },
      async handle({ caller, query }) {
        const limit = query.limit ?? 100
        const rows = await sessions.list(caller, {
          status: statusesOf(query.status),
          name: query.name,
          subject: query.subject,
          labels: labelsOf(query.label),
          limit: limit + 1,
          after: placeOf(query.cursor),
        })
        const page = boundedPage(rows.slice(0, limit))
        return {
          sessions: page.map(sessionView),
          next_cursor: rows.length > page.length ? cursorOf(page.at(-1)!) : undefined,
        }
      },
    }),
    route({
      id: 'getSession',
      method: 'GET',
      path: '/v1/sessions/{id}',
      access: 'read',
      tag,
      summary: 'Get a session. This does not extend its lease.',
      params,
      answer: { description: 'The session.', schema: schemas.session },
      handle: async ({ caller, params }) => sessionView(await sessions.get(caller, params.id)),
    }),
    route({
      id: 'changeSession',
      method: 'PATCH',
      path: '/v1/sessions/{id}',
      access: 'exec',
      tag,
      summary: 'Change labels of a session. Null removes a label; omitted labels stay.',
      params,
      body: z.strictObject({
        labels: z.record(schemas.labelKey, schemas.labelValue.nullable()),
      }),
      answer: { description: 'The session.', schema: schemas.session },
      handle: async ({ caller, params, body }) =>
        sessionView(await sessions.setLabels(caller, params.id, body.labels)),
    }),
    route({
      id: 'destroySession',
      method: 'DELETE',
      path: '/v1/sessions/{id}',
      access: 'exec',
      tag,
      summary: 'Destroy a session and its disk.',
      params,
      answer: {
        description: '`destroyed` is false when the session had already ended.',
        schema: z.object({ destroyed: z.boolean(), session: schemas.session }),
      },
      async handle({ caller, params }) {
        const destroyed = await sessions.destroy(caller, params.id)
        return { destroyed, session: sessionView(await sessions.get(caller, params.id)) }
      },
    }),
    ...(['start', 'stop', 'pause', 'resume'] as const).map((verb) =>
      route({
        id: `${verb}Session`,
        method: 'POST',
        path: `/v1/sessions/{id}/${verb}`,
        access: 'exec',
        tag,
        summary: summaries[verb],
        params,
        body: z.strictObject({}).optional(),
        answer: { description: 'The session.', schema: schemas.session },
        handle: async ({ caller, params, request }) =>
          sessionView(await sessions[verb](caller, params.id, incarnationOf(request))),
      }),
    ),
    route({
      id: 'extendSession',
      method: 'POST',
      path: '/v1/sessions/{id}/extend',
      access: 'exec',
      tag,
      summary:
        'Extend the leases to at least this long from now. A lease that already lasts longer is unchanged.',
      params,
      body: z.strictObject({ ttl_seconds: schemas.seconds }),
      answer: { description: 'The session.', schema: schemas.session },
      handle: async ({ caller, params, body, request }) =>
        sessionView(
          await sessions.extend(caller, params.id, body.ttl_seconds * 1000, incarnationOf(request)),
        ),
    }),
    route({
      id: 'sessionStats',
      method: 'GET',
      path: '/v1/sessions/{id}/stats',
      access: 'read',
      tag,
      summary: 'Get the sandbox’s current resource usage. Values that are not measured are absent.',
      params,
      answer: { description: 'The current values.', schema: z.record(z.string(), z.number()) },
      async handle({ caller, params }) {
        const stats = await sessions.stats(await sessions.use.findHere(caller, params.id))
        if (!stats)
          throw new SandboxError('unsupported', 'This daemon does not measure resource usage of sandboxes.', {
            hint: 'Use the isolator oci.',
          })
        return Object.fromEntries(Object.entries(stats).map(([name, value]) => [snake(name), value]))
      },
    }),
    route({
      id: 'sessionEvents',
      method: 'GET',
      path: '/v1/sessions/{id}/events',
      access: 'read',
      tag,
      summary: 'Stream the events of one session (SSE).',
      params,
      query: z.strictObject({ after: schemas.whole.optional() }),
      answer: { description: 'Numbered events.', types: ['text/event-stream'] },
      async handle({ caller, params, query, reply, signal }) {
        await sessions.get(caller, params.id)
        const after = query.after ?? 0
        await streams.send(
          reply,
          async function* (ending) {
            for await (const { id, type, data, createdAt } of events.follow(caller.projectId, {
              after,
              sessionId: params.id,
              signal: ending,
            }))
              yield {
                event: type,
                id,
                data: { session_id: params.id, ...data, created_at: new Date(createdAt).toISOString() },
              }
          },
          signal,
        )
      },
    }),
  ]
}

const summaries = {
  start: 'Start a stopped or crashed session with its disk.',
  stop: 'Stop a session: end its processes and keep its disk.',
  pause: 'Pause a session and all its processes.',
  resume: 'Resume a paused session.',
}

const ms = (seconds: number | undefined): number | undefined =>
  seconds === undefined ? undefined : Math.round(seconds * 1000)

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** The key from the body or the header. A long key is refused, not cut: two long keys may differ only at their ends. */
function networkOf({ network, network_mode: mode }: z.infer<typeof schemas.createBody>) {
  if (network !== undefined && mode !== undefined)
    throw new SandboxError('invalid_argument', 'Both network and network_mode are given.', {
      hint: 'Send only network.',
    })
  return network === undefined ? mode : givenNetwork(network)
}

function idempotencyKeyOf(inBody: string | undefined, header: string | string[] | undefined) {
  if (header === undefined || header === '') return inBody
  const key = schemas.idempotencyKey.safeParse(header)
  if (!key.success || (inBody !== undefined && inBody !== key.data))
    throw new SandboxError(
      'invalid_argument',
      key.success
        ? 'The header Idempotency-Key and idempotency_key differ.'
        : 'The header Idempotency-Key must be 1 to 200 characters, sent once.',
      { hint: 'Send one key, for example a UUID.' },
    )
  return key.data
}

/** Returns whether the client disconnected before the response was sent. */
function goneBefore(raw: { destroyed: boolean; writableEnded: boolean }): () => boolean {
  return () => raw.destroyed && !raw.writableEnded
}

function statusesOf(text: string | undefined) {
  if (text === undefined) return undefined
  return text.split(',').map((word) => {
    const status = schemas.statuses.find((known) => known === word)
    if (status) return status
    throw new SandboxError('invalid_argument', `There is no status “${word}”.`, {
      hint: `Use ${schemas.statuses.join(', ')}.`,
    })
  })
}

function labelsOf(given: string | string[] | undefined): Record<string, string> {
  const list = given === undefined ? [] : Array.isArray(given) ? given : [given]
  return Object.fromEntries(
    list.map((text) => {
      const equals = text.indexOf('=')
      if (equals > 0) return [text.slice(0, equals), text.slice(equals + 1)]
      throw new SandboxError('invalid_argument', `The label “${text}” is not key=value.`)
    }),
  )
}
