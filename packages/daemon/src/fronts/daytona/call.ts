import { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { type Caller, includes, type Scope } from '../../keys/index.ts'
import type { Session, Used } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import { sandboxOf } from './sandboxes.ts'
import { signedBy } from './signed-files.ts'

/** A request to this front whose key is known. */
export interface Call {
  readonly caller: Caller
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string | string[] | undefined>>
  readonly body: unknown
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly place: FrontPlace
  /** Fires when the client goes away before it has its answer. */
  readonly signal: AbortSignal
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** Adds routes that need a key with a scope, or where they are `signed` an address that is. What a handler returns is the answer. */
export class Routes {
  readonly #app: FastifyInstance
  readonly #place: FrontPlace

  constructor(app: FastifyInstance, place: FrontPlace) {
    this.#app = app
    this.#place = place
  }

  add(
    method: Method,
    url: string,
    scope: Scope,
    handle: (call: Call) => Promise<unknown>,
    options: { status?: number; streamed?: boolean; signed?: boolean } = {},
  ): void {
    const place = this.#place
    this.#app.route({
      method,
      url,
      config: { streamed: options.streamed ?? false },
      exposeHeadRoute: false,
      async onRequest(request) {
        request.caller =
          (options.signed && (await signedBy(place, request, scope))) ||
          (await callerOf(place, request.headers.authorization, request.id, scope))
      },
      async handler(request, reply) {
        const call: Call = {
          caller: request.caller!,
          params: request.params as Call['params'],
          query: request.query as Call['query'],
          body: request.body,
          request,
          reply,
          place,
          signal: signalOf(reply),
        }
        if (options.status !== undefined) reply.code(options.status)
        const answer = await handle(call)
        if (reply.sent) return reply
        reply.header('x-request-id', request.id)
        if (answer === undefined) return reply.send('')
        return reply.type('application/json').send(JSON.stringify(answer))
      },
    })
  }
}

/** The key travels as the vendor's SDKs send theirs: `Authorization: Bearer`. */
export async function callerOf(
  { services }: FrontPlace,
  header: string | undefined,
  requestId: string,
  scope: Scope,
): Promise<Caller> {
  const caller = await services.keys.authenticate(header, requestId)
  if (includes(caller.scopes, scope)) return caller
  throw new SandboxError('forbidden', `This needs a key with the scope “${scope}”.`, {
    hint: 'Use another key.',
  })
}

/** What the request holds, checked. */
export function checked<T extends z.ZodType>(schema: T, value: unknown): z.infer<T> {
  const result = schema.safeParse(value ?? {})
  if (result.success) return result.data
  const [issue] = result.error.issues
  const where = issue?.path.join('.')
  throw new SandboxError(
    'invalid_argument',
    `${where ? `${where}: ` : ''}${issue?.message ?? 'not understood'}`,
  )
}

/** A parameter of the query that must be there, once. */
export function needed(call: Call, name: string): string {
  const value = call.query[name]
  if (typeof value === 'string' && value !== '') return value
  throw new SandboxError('invalid_argument', `${name} is required`)
}

export function optional(call: Call, name: string): string | undefined {
  const value = call.query[name]
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** The sandbox that the path names: the caller's own, found by id or name. */
export function found(call: Call): Promise<Session> {
  return sandboxOf(call.place, call.caller, call.params.id!)
}

/** Work in the sandbox that the path names. It is not started for that: the vendor does not either. */
export async function using<T>(call: Call, work: (used: Used) => Promise<T>): Promise<T> {
  const { id } = await found(call)
  return call.place.services.sessions.use.use(call.caller, id, work, { wake: false })
}

export function notSupported(what: string): SandboxError {
  return new SandboxError('unsupported', `${what} is not supported by this server`, {
    hint: 'docs/fronts.md lists what is.',
  })
}

function signalOf(reply: FastifyReply): AbortSignal {
  const controller = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort()
  })
  return controller.signal
}
