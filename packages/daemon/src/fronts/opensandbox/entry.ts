import { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance } from 'fastify'
import type { Caller, Scope } from '../../keys/index.ts'
import type { Session, Used } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import { addRoute, type FrontCall, type FrontRoute } from '../shared/route.ts'
import { liveSession } from '../shared/sessions.ts'
import { callerByKey, callerInside } from './access-token.ts'

/** Ports of OpenSandbox's own servers in a sandbox. This front answers for them. */
export const execdPort = 44_772
export const egressPort = 18_080

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

export interface Call extends FrontCall {
  /** The sandbox id in the path, or an empty text. */
  readonly id: string
}

export interface RouteOptions {
  /** The handler gets the body as a stream. */
  streamed?: boolean
}

type Handle = (call: Call) => Promise<unknown>
type CallerOf = NonNullable<FrontRoute['callerOf']>

/** Adds this front's routes: authenticates requests and finds their sandbox. */
export class Entry {
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
    const callerOf: CallerOf = (request) => callerByKey(this.services, request)
    this.#add(method, `/v1${path}`, scope, handle, { callerOf })
  }

  execd(method: Method, path: string, scope: Scope, handle: Handle, options: RouteOptions = {}): void {
    const callerOf: CallerOf = (request) => callerInside(this.services, request)
    this.#add(method, `/sandboxes/:id/port/${execdPort}${path}`, scope, handle, { ...options, callerOf })
  }

  egress(method: Method, path: string, scope: Scope, handle: Handle): void {
    const callerOf: CallerOf = (request) => callerInside(this.services, request)
    this.#add(method, `/sandboxes/:id/port/${egressPort}${path}`, scope, handle, { callerOf })
  }

  find(caller: Caller, id: string): Promise<Session> {
    return liveSession(this.services, caller, id, () => noSandbox(id))
  }

  /** Runs work in a running sandbox. Does not wake it. */
  async use<T>({ caller, id }: Call, work: (used: Used) => Promise<T>): Promise<T> {
    await this.find(caller, id)
    return this.services.sessions.use.use(caller, id, work, { wake: false })
  }

  /** For work that may need much memory. Limits concurrent calls of a project. */
  list<T>(call: Call, work: (used: Used) => Promise<T>): Promise<T> {
    const { largeCalls } = this.services.sessions
    return largeCalls.run(call.caller.projectId, call.signal, () => this.use(call, work))
  }

  #add(
    method: Method,
    url: string,
    scope: Scope,
    handle: Handle,
    options: RouteOptions & { callerOf: CallerOf },
  ): void {
    addRoute(this.#app, this.place, {
      method,
      url,
      scope,
      ...options,
      handle: (call) => handle({ ...call, id: call.params.id ?? '' }),
    })
  }
}

/** The same error for a missing or ended sandbox, and for one of another project. */
export function noSandbox(id: string): SandboxError {
  return new SandboxError('not_found', `Sandbox ${id} not found.`, {
    hint: 'The sandbox has ended, or never existed.',
  })
}

/** The values of a required query parameter that may be repeated. */
export function several(call: Call, name: string): string[] {
  const values = [call.query[name] ?? []].flat().filter((value) => value !== '')
  if (values.length > 0) return values
  throw new SandboxError('invalid_argument', `Missing query parameter '${name}'.`, { hint: 'Add it.' })
}
