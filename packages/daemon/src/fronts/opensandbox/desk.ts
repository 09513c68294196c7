import { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { type Caller, includes, type Scope } from '../../keys/index.ts'
import type { Session, Used } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'

/** Ports of a sandbox behind which OpenSandbox has servers of its own; here we are behind them. */
export const execdPort = 44_772
export const egressPort = 18_080

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

export interface Call {
  readonly caller: Caller
  /** The sandbox of the path; empty where there is none. */
  readonly id: string
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string | string[] | undefined>>
  readonly body: unknown
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  /** Fires when the client goes away. */
  readonly signal: AbortSignal
}

export interface RouteOptions {
  /** The body is handed on as it comes. */
  streamed?: boolean
}

type Handle = (call: Call) => Promise<unknown>

/** Where requests of this front arrive: who asks, which sandbox is meant. */
export class Desk {
  readonly place: FrontPlace
  readonly #app: FastifyInstance

  constructor(app: FastifyInstance, place: FrontPlace) {
    this.place = place
    this.#app = app
  }

  get services() {
    return this.place.services
  }

  lifecycle(method: Method, path: string, scope: Scope, handle: Handle): void {
    this.#add(method, `/v1${path}`, scope, {}, handle)
  }

  execd(method: Method, path: string, scope: Scope, handle: Handle, options: RouteOptions = {}): void {
    this.#add(method, `/sandboxes/:id/port/${execdPort}${path}`, scope, options, handle)
  }

  egress(method: Method, path: string, scope: Scope, handle: Handle): void {
    this.#add(method, `/sandboxes/:id/port/${egressPort}${path}`, scope, {}, handle)
  }

  /** The caller's own, as long as it is one: what has ended is not found, nor what is another's or another machine's. */
  async find(caller: Caller, id: string): Promise<Session> {
    const session = await this.services.sessions.use.findHere(caller, id).catch((error: unknown) => {
      throw SandboxError.is(error, 'not_found', 'conflict') ? noSandbox(id) : error
    })
    if (session.live === 0) throw noSandbox(id)
    return session
  }

  /** Work inside the sandbox, which must run: nothing here wakes one. */
  async use<T>({ caller, id }: Call, work: (used: Used) => Promise<T>): Promise<T> {
    await this.find(caller, id)
    return this.services.sessions.use.use(caller, id, work, { wake: false })
  }

  #add(method: Method, url: string, scope: Scope, options: RouteOptions, handle: Handle): void {
    this.#app.route({
      method,
      url,
      exposeHeadRoute: false,
      config: { streamed: options.streamed ?? false },
      onRequest: async (request, reply) => {
        reply.header('x-request-id', request.id)
        request.caller = await this.services.keys.authenticate(keyOf(request), request.id)
        if (!includes(request.caller.scopes, scope)) throw forbidden(scope)
      },
      handler: async (request, reply) => {
        const params = request.params as Record<string, string>
        const answer = await handle({
          caller: request.caller!,
          id: params.id ?? '',
          params,
          query: request.query as Call['query'],
          body: options.streamed ? (request.body ?? request.raw) : (request.body ?? {}),
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
}

/** The SDK sends its key to the servers inside a sandbox, too. `X-EXECD-ACCESS-TOKEN` is what those are documented to take. */
function keyOf({ headers }: FastifyRequest): string | undefined {
  const given = headers['open-sandbox-api-key'] ?? headers['x-execd-access-token']
  return typeof given === 'string' ? `Bearer ${given}` : headers.authorization
}

export function forbidden(scope: Scope): SandboxError {
  return new SandboxError('forbidden', `This needs a key with the scope “${scope}”.`, {
    details: { scope },
    hint: 'Use another key.',
  })
}

/** The same for one of another project, one that has ended, and none. */
export function noSandbox(id: string): SandboxError {
  return new SandboxError('not_found', `Sandbox ${id} not found.`, { hint: 'It has ended, or never was.' })
}

/** A feature of OpenSandbox that there is nothing for here. */
export function notSupported(what: string, hint = 'Leave it out; see docs/fronts.md.'): SandboxError {
  return new SandboxError('unsupported', `${what} is not supported by this server.`, { hint })
}

export function parsed<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [first] = result.error.issues
  const where = first?.path.length ? `${first.path.join('.')}: ` : ''
  throw new SandboxError('invalid_argument', `Invalid request: ${where}${first?.message}.`, {
    hint: 'Correct it.',
  })
}

/** A parameter of the query that must be there, once. */
export function needed(call: Call, name: string): string {
  const value = call.query[name]
  if (typeof value === 'string' && value !== '') return value
  throw new SandboxError('invalid_argument', `Missing query parameter '${name}'.`, { hint: 'Add it.' })
}

/** One that may be there several times, and must at least once. */
export function several(call: Call, name: string): string[] {
  const values = [call.query[name] ?? []].flat().filter((value) => value !== '')
  if (values.length > 0) return values
  throw new SandboxError('invalid_argument', `Missing query parameter '${name}'.`, { hint: 'Add it.' })
}

function goneSignal(reply: FastifyReply): AbortSignal {
  const controller = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort()
  })
  return controller.signal
}
