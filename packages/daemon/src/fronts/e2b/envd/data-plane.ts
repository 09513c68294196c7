import { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Caller, includes } from '../../../keys/index.ts'
import type { Session } from '../../../sessions/index.ts'
import type { FrontPlace } from '../../front.ts'
import { addRoute, type FrontRoute } from '../../shared/route.ts'
import { Access } from '../access.ts'
import type { Sandboxes } from '../lifecycle.ts'
import { sandboxGone } from '../refusal.ts'
import type { RoutedRequest } from '../routing.ts'

export interface Entered {
  readonly caller: Caller
  readonly session: Session
}

export interface FileQuery {
  readonly path?: string
  readonly username?: string
  readonly signature?: string
  readonly signature_expiration?: string
}

/** Routes and authorizes requests for the inside of a sandbox, and wakes the sandbox. */
export class DataPlane {
  readonly #place: FrontPlace
  readonly #access: Access
  readonly #sandboxes: Sandboxes

  constructor(place: FrontPlace, access: Access, sandboxes: Sandboxes) {
    this.#place = place
    this.#access = access
    this.#sandboxes = sandboxes
  }

  /**
   * Adds a route that needs a token of the sandbox with the route's scope. Authorization runs before the body is read.
   */
  route(app: FastifyInstance, route: Omit<FrontRoute, 'callerOf'>): void {
    addRoute(app, this.#place, { ...route, callerOf: (request) => this.#admit(request) })
  }

  /** Like `route`, but also accepts a signature in the query instead of a token. */
  fileRoute(app: FastifyInstance, route: Omit<FrontRoute, 'callerOf'>): void {
    const operation = route.scope === 'read' ? 'read' : 'write'
    const callerOf = (request: FastifyRequest) => {
      const query = request.query as FileQuery
      return query.signature === undefined
        ? this.#admit(request)
        : this.#admitSigned(request, operation, { ...query, signature: query.signature })
    }
    addRoute(app, this.#place, { ...route, callerOf })
  }

  /** The sandbox that the request was admitted to, awake. */
  async enter(request: FastifyRequest): Promise<Entered> {
    const { username } = request.query as FileQuery
    const session = request.session!
    refuseUser(username || userOf(request.headers.authorization), session.run_user)
    if (session.live === 0) throw sandboxGone(session.id)
    // A key with the scope `read` must not start a sandbox.
    if (session.status !== 'running' && !includes(request.caller!.scopes, 'exec'))
      throw sandboxGone(session.id)
    return { caller: request.caller!, session: await this.#sandboxes.reached(request.caller!, session) }
  }

  async #admit(request: FastifyRequest): Promise<Caller> {
    const { id, session } = await this.#find(request)
    const caller = await this.#access.token(request, id, session)
    return this.#admitAs(caller, request, session!)
  }

  async #admitSigned(
    request: FastifyRequest,
    operation: 'read' | 'write',
    query: FileQuery & { signature: string },
  ): Promise<Caller> {
    const { path = '', username = '', signature, signature_expiration: expires } = query
    const signed = { path, operation, username, signature, expires: expires || undefined }
    const { caller, session } = await this.#access.signature(request, this.#candidates(request), signed)
    return this.#admitAs(caller, request, session)
  }

  #admitAs(caller: Caller, request: FastifyRequest, session: Session): Caller {
    request.session = session
    request.target = session.id
    return caller
  }

  async #find(request: FastifyRequest): Promise<{ id: string; session: Session | undefined }> {
    const id = (request.raw as RoutedRequest).e2bRoute?.id ?? Access.sandboxOf(request)
    if (id === undefined)
      throw new SandboxError('invalid_argument', 'The request does not name a sandbox.', {
        hint: 'Send the header E2b-Sandbox-Id, or use the host <port>-<id>.<domain>.',
      })
    const { sessions } = this.#place.services
    const session = await sessions.lookup(id)
    return { id, session: session && sessions.isHere(session) ? session : undefined }
  }

  #candidates(request: FastifyRequest): { sessions: () => Promise<readonly Session[]>; all: boolean } {
    if (!(request.raw as RoutedRequest).e2bRoute)
      return { sessions: () => this.#place.services.sessions.lookupAll(), all: true }
    const sessions = async () => {
      const { session } = await this.#find(request)
      return session ? [session] : []
    }
    return { sessions, all: false }
  }
}

/** The SDKs name a user with `Basic base64("<user>:")`. */
function userOf(authorization: string | undefined): string {
  const encoded = /^basic +([\w+/=]+)$/i.exec(authorization ?? '')?.[1]
  return encoded === undefined ? '' : Buffer.from(encoded, 'base64').toString().split(':')[0]!
}

/** A sandbox has one account. E2B's `user` means this account, whatever its real name is. */
function refuseUser(user: string, own: string | null): void {
  if (user === '' || user === 'user' || user === 'sandbox' || user === own) return
  throw new SandboxError('invalid_argument', `There is no user '${user}' in this sandbox.`, {
    hint: 'Leave the user out. A sandbox has one account, which is root only if the front has `user: root`.',
  })
}
