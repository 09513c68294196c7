import { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Caller, includes, type Scope } from '../../keys/index.ts'
import type { FrontPlace } from '../front.ts'

/** An authenticated request to a front. */
export interface FrontCall {
  readonly caller: Caller
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string | string[] | undefined>>
  readonly body: unknown
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  /** Fires when the client disconnects before the response is sent. */
  readonly signal: AbortSignal
}

export interface FrontRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly url: string
  readonly scope: Scope
  /** The handler gets the body as a stream. */
  readonly streamed?: boolean
  /** For metrics and the audit log; default: method and path. */
  readonly action?: string
  /** Authenticates the request. Default: the key in `Authorization: Bearer`. */
  readonly callerOf?: (request: FastifyRequest) => Promise<Caller>
  /** Returns the response body, unless the handler has sent a response. */
  handle(call: FrontCall): Promise<unknown>
}

/** Adds a route. Authorization runs before the body is read. */
export function addRoute(app: FastifyInstance, { services }: FrontPlace, route: FrontRoute): void {
  const { method, url, scope, streamed = false, action } = route
  const callerOf =
    route.callerOf ?? (({ headers, id }) => services.keys.authenticate(headers.authorization, id))
  app.route({
    method,
    url,
    exposeHeadRoute: false,
    config: { streamed, action },
    onRequest: async (request) => {
      request.caller = await callerOf(request)
      allow(request.caller, scope)
    },
    handler: async (request, reply) => {
      const answer = await route.handle({
        caller: request.caller!,
        params: request.params as FrontCall['params'],
        query: request.query as FrontCall['query'],
        body: streamed ? (request.body ?? request.raw) : (request.body ?? {}),
        request,
        reply,
        signal: goneSignal(reply),
      })
      if (reply.sent) return reply
      if (answer === undefined) return reply.send()
      return reply.type('application/json').send(JSON.stringify(answer))
    },
  })
}

export function allow(caller: Caller, scope: Scope): void {
  if (includes(caller.scopes, scope)) return
  throw new SandboxError('forbidden', `This needs a key with the scope “${scope}”.`, {
    details: { scope },
    hint: 'Use another key.',
  })
}

function goneSignal({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController()
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort()
  })
  return controller.signal
}
