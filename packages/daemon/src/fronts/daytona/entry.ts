import type { FastifyInstance } from 'fastify'
import type { Caller, Scope } from '../../keys/index.ts'
import type { Session, Used } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import { addRoute, allow, type FrontCall, type FrontRoute } from '../shared/route.ts'
import type { EventSockets } from './event-sockets.ts'
import { signedBy } from './signed-urls.ts'
import { sandboxOf } from './views.ts'

export interface Call extends FrontCall {
  readonly place: FrontPlace
  /** The clients that listen for changes of sandboxes. */
  readonly events: EventSockets
}

/**
 * Adds routes that need a key with a scope. `signed` routes also accept a signed URL. The handler returns the response
 * body.
 */
export class Entry {
  readonly #app: FastifyInstance
  readonly #place: FrontPlace
  readonly #events: EventSockets

  constructor(app: FastifyInstance, place: FrontPlace, events: EventSockets) {
    this.#events = events
    this.#app = app
    this.#place = place
  }

  add(
    method: FrontRoute['method'],
    url: string,
    scope: Scope,
    handle: (call: Call) => Promise<unknown>,
    options: { status?: number; streamed?: boolean; signed?: boolean } = {},
  ): void {
    const place = this.#place
    const events = this.#events
    const { status, streamed = false, signed = false } = options
    const { keys } = place.services
    addRoute(this.#app, place, {
      method,
      url,
      scope,
      streamed,
      callerOf: async (request) =>
        (signed && (await signedBy(place, request, scope))) ||
        (await keys.authenticate(request.headers.authorization, request.id)),
      handle(call) {
        if (status !== undefined) call.reply.code(status)
        return handle({ ...call, place, events })
      },
    })
  }
}

/** The vendor's SDKs send the key as `Authorization: Bearer`. */
export async function callerOf(
  { services }: FrontPlace,
  header: string | undefined,
  requestId: string,
  scope: Scope,
): Promise<Caller> {
  const caller = await services.keys.authenticate(header, requestId)
  allow(caller, scope)
  return caller
}

export function optional(call: Call, name: string): string | undefined {
  const value = call.query[name]
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** The sandbox that the path names: the caller's own, found by id or name. */
export function found(call: Call): Promise<Session> {
  return sandboxOf(call.place, call.caller, call.params.id!)
}

/** Runs work in the sandbox that the path names. Does not wake it, and neither does the vendor. */
export async function using<T>(call: Call, work: (used: Used) => Promise<T>): Promise<T> {
  const { id } = await found(call)
  return call.place.services.sessions.use.use(call.caller, id, work, { wake: false })
}
