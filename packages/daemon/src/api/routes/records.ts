import { z } from 'zod'
import type { Services } from '../../http/services.ts'
import type { SessionEvent } from '../../sessions/index.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { iso } from '../views.ts'

const tag = 'records'

export function recordRoutes({ events, streams, audit, sessions }: Services): Route[] {
  return [
    route({
      id: 'events',
      method: 'GET',
      path: '/v1/events',
      access: 'read',
      tag,
      summary:
        'Stream the project’s events (SSE). `after` resumes after an event number; without it only new events are sent. Returns 410 when the events after it were dropped.',
      query: z.strictObject({
        after: schemas.whole.optional(),
        session_id: z.string().optional(),
        limit: schemas.limit.optional().describe('Return one page as JSON instead of a stream.'),
      }),
      answer: {
        description: 'Numbered events.',
        schema: z.object({ events: z.array(schemas.event), last: z.int() }),
        types: ['text/event-stream'],
      },
      async handle({ caller, query, request, reply, signal }) {
        const { session_id: sessionId } = query
        const header = request.headers['last-event-id']
        const given =
          query.after ??
          (typeof header === 'string' && /^\d{1,15}$/.test(header) ? Number(header) : undefined)
        if (query.limit !== undefined) {
          const page = await events.list(caller.projectId, {
            after: given ?? 0,
            limit: query.limit,
            sessionId,
          })
          return { events: page.map(view), last: page.at(-1)?.id ?? given ?? 0 }
        }
        const after = given ?? (await events.last())
        await streams.send(
          reply,
          async function* (ending) {
            for await (const event of events.follow(caller.projectId, { after, sessionId, signal: ending }))
              yield { event: event.type, id: event.id, data: view(event) }
          },
          signal,
        )
      },
    }),
    route({
      id: 'audit',
      method: 'GET',
      path: '/v1/audit',
      access: 'admin',
      tag,
      summary: 'List the project’s audit log, newest first.',
      query: z.strictObject({ before: schemas.whole.optional(), limit: schemas.limit.optional() }),
      answer: {
        description: 'A page of the audit log.',
        schema: z.object({
          entries: z.array(
            z.object({
              id: z.int(),
              key_id: z.string().describe('The id of a key, or of a token.'),
              subject: z.string().nullable().describe('The subject of the token. Null for keys.'),
              action: z.string(),
              target: z.string().nullable(),
              status: z.int(),
              request_id: z.string(),
              created_at: z.iso.datetime(),
            }),
          ),
        }),
      },
      async handle({ caller, query }) {
        await audit.flush()
        const rows = await sessions.audit(caller, { before: query.before, limit: query.limit ?? 100 })
        return {
          entries: rows.map(({ id, key_id, subject, action, target, status, request_id, created_at }) => ({
            id,
            key_id,
            subject,
            action,
            target,
            status,
            request_id,
            created_at: iso(created_at),
          })),
        }
      },
    }),
  ]
}

function view(event: SessionEvent): z.infer<typeof schemas.event> {
  return {
    id: event.id,
    type: event.type,
    session_id: event.sessionId ?? null,
    data: event.data,
    created_at: iso(event.createdAt),
  }
}
