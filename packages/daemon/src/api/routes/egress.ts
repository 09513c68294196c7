import { z } from 'zod'
import type { Services } from '../../http/services.ts'
import { type EgressEvent, shownNetwork } from '../../sessions/index.ts'
import { incarnationOf } from '../incarnation.ts'
import { givenNetwork } from '../network.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { iso, sessionView } from '../views.ts'

const tag = 'egress'
const params = schemas.sessionParams
/** The gateway counts from a time in microseconds. */
const sequence = z
  .string()
  .regex(/^\d{1,16}$/, 'must be a whole number')
  .transform(Number)

export function egressRoutes({ sessions, streams }: Services): Route[] {
  const { networks } = sessions
  return [
    route({
      id: 'setNetwork',
      method: 'PUT',
      path: '/v1/sessions/{id}/network',
      access: 'exec',
      tag,
      summary: 'Replace the network of a session at once. Connections that it no longer allows are closed.',
      params,
      body: schemas.networkBody,
      answer: { description: 'The session.', schema: schemas.session },
      async handle({ caller, params, body, request }) {
        const meant = incarnationOf(request)
        return sessionView(await networks.set(caller, params.id, givenNetwork(body), meant))
      },
    }),
    route({
      id: 'egress',
      method: 'GET',
      path: '/v1/sessions/{id}/egress',
      access: 'read',
      tag,
      summary:
        'List what a session with a network policy reached, and what it was refused, oldest first. The newest 1,000 events are kept while the session runs.',
      params,
      query: z.strictObject({
        after: sequence.optional().describe('Only events after this number.'),
        limit: schemas.limit.optional().describe('Default 100.'),
        verdict: z.enum(schemas.verdicts).optional(),
        follow: schemas.flag.optional().describe('Stream events (SSE), also later ones.'),
      }),
      answer: {
        description: 'A page of events. Pass `next` as `after` to continue.',
        schema: z.object({ events: z.array(schemas.egressEvent), next: z.int() }),
        types: ['text/event-stream'],
      },
      async handle({ caller, params, query, request, reply, signal }) {
        const { verdict, follow, limit = 100 } = query
        const header = request.headers['last-event-id']
        const resumed = typeof header === 'string' && /^\d{1,16}$/.test(header) ? Number(header) : undefined
        const after = query.after ?? resumed
        if (!follow) {
          const { events, next } = await networks.events(caller, params.id, { after, limit, verdict })
          return { events: events.map((event) => view(params.id, event)), next }
        }
        await streams.send(
          reply,
          async function* (ending) {
            for await (const event of networks.follow(caller, params.id, { after, verdict, signal: ending }))
              yield { event: event.verdict, id: event.seq, data: view(params.id, event) }
          },
          signal,
        )
      },
    }),
    route({
      id: 'learnedPolicy',
      method: 'GET',
      path: '/v1/sessions/{id}/egress/policy',
      access: 'read',
      tag,
      summary: 'Get the network policy that would have sufficed for what the session reached so far.',
      params,
      answer: {
        description: 'The policy.',
        schema: z.object({ network: z.record(z.string(), z.unknown()) }),
      },
      handle: async ({ caller, params }) => ({
        network: shownNetwork(await networks.learned(caller, params.id)),
      }),
    }),
  ]
}

function view(sessionId: string, event: EgressEvent): z.infer<typeof schemas.egressEvent> {
  const { seq, at, kind, host, address, port, verdict, rule, reason, method, path, status } = event
  return {
    seq,
    session_id: sessionId,
    at: iso(at),
    kind,
    host,
    address,
    port,
    verdict,
    rule,
    reason,
    bytes_in: event.bytesIn,
    bytes_out: event.bytesOut,
    duration_ms: event.durationMs,
    method,
    path,
    status,
  }
}
