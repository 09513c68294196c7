import { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { type Caller, includes, type Scope } from '../../keys/index.ts'
import type { Session } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'

/** What the vendor keeps of a sandbox that a session does not have. */
export interface Kept {
  /** How long each of its sessions may run. */
  timeoutMs: number
  persistent: boolean
  runtime?: string
  currentSnapshotId?: string
  snapshotExpirationMs?: number
}

/** Sessions that were made here, among those of the project. Not shown among the tags. */
export const frontLabel = 'sandkasten.front'
export const frontName = 'vercel'

export interface VercelRoute {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  scope: Scope
  /** The body is handed on as it comes. */
  streamed?: boolean
  handle(call: VercelCall): Promise<unknown>
}

export interface VercelCall {
  readonly caller: Caller
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string | string[] | undefined>>
  readonly body: unknown
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  /** Fires when the client goes away. */
  readonly signal: AbortSignal
}

/** Where requests of this front arrive: who asks, which sandbox is meant, what is remembered of it. */
export class VercelDesk {
  readonly place: FrontPlace
  readonly #app: FastifyInstance

  constructor(app: FastifyInstance, place: FrontPlace) {
    this.#app = app
    this.place = place
  }

  get services() {
    return this.place.services
  }

  add(route: VercelRoute): void {
    for (const prefix of ['', '/api'])
      this.#app.route({
        method: route.method,
        url: `${prefix}${route.path}`,
        exposeHeadRoute: false,
        config: { streamed: route.streamed ?? false, action: `${route.method} ${route.path}` },
        onRequest: async (request, reply) => {
          reply.header('x-request-id', request.id)
          request.caller = await this.services.keys.authenticate(request.headers.authorization, request.id)
          this.allow(request.caller, route.scope)
        },
        handler: async (request, reply) => {
          const answer = await route.handle({
            caller: request.caller!,
            params: request.params as Record<string, string>,
            query: request.query as Record<string, string>,
            body: route.streamed ? (request.body ?? request.raw) : (request.body ?? {}),
            request,
            reply,
            signal: goneSignal(reply),
          })
          if (reply.sent) return reply
          return reply.type('application/json').send(JSON.stringify(answer))
        },
      })
  }

  allow(caller: Caller, scope: Scope): void {
    if (includes(caller.scopes, scope)) return
    throw new SandboxError('forbidden', `This needs a key with the scope “${scope}”.`, {
      details: { scope },
      hint: 'Use another key.',
    })
  }

  /** The live sandbox with this name, for this project only. */
  async byName(caller: Caller, name: string): Promise<Session> {
    const found = await this.findByName(caller, name)
    if (found) return found
    throw new SandboxError('not_found', `There is no sandbox “${name}”.`, {
      hint: 'List what there is with Sandbox.list().',
    })
  }

  async findByName(caller: Caller, name: string): Promise<Session | undefined> {
    const [found] = await this.services.sessions.list(caller, {
      name,
      labels: { [frontLabel]: frontName },
      status: ['creating', 'running', 'paused', 'stopped', 'crashed'],
      limit: 1,
    })
    // By its id, because only then the newest use is known.
    return found && this.services.sessions.get(caller, found.id)
  }

  /** One run of a sandbox by `sbx_<session>_<start>`. */
  async bySession(caller: Caller, sid: string): Promise<{ session: Session; incarnation: number }> {
    const [, id, start] = /^sbx_([a-z2-7]{16})_(\d{1,9})$/.exec(sid) ?? []
    const unknown = () =>
      new SandboxError('not_found', `There is no session ${sid}.`, {
        hint: 'Get the sandbox again with Sandbox.get().',
      })
    if (id === undefined) throw unknown()
    const session = await this.services.sessions.get(caller, id).catch((error: unknown) => {
      throw SandboxError.is(error, 'not_found') ? unknown() : error
    })
    if (session.live === 0 || Number(start) > session.incarnation) throw unknown()
    return { session, incarnation: Number(start) }
  }

  async kept(session: Session): Promise<Kept> {
    const known = await this.place.records.get<Kept>(session.project_id, 'sandbox', session.id)
    return known ?? { timeoutMs: session.lifetime_ms ?? this.longestMs, persistent: true }
  }

  keep(session: Session, kept: Kept): Promise<void> {
    return this.place.records.put(session.project_id, 'sandbox', session.id, kept, session.id)
  }

  get longestMs(): number {
    return this.services.config.max_ttl_seconds * 1000
  }
}

export function parsed<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [first] = result.error.issues
  throw new SandboxError(
    'invalid_argument',
    `Invalid request: \`${first?.path.join('.') ?? ''}\` ${first?.message}.`,
    { hint: 'Correct it.' },
  )
}

/** A feature of the vendor's that there is nothing for here. */
export function notHere(what: string, hint = 'Leave it out; see docs/fronts.md.'): SandboxError {
  return new SandboxError('unsupported', `${what} is not supported by this server.`, { hint })
}

function goneSignal(reply: FastifyReply): AbortSignal {
  const controller = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort()
  })
  return controller.signal
}
