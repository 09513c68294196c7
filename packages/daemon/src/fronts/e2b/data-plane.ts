import { SandboxError } from '@sandkasten/sdk'
import type { FastifyRequest } from 'fastify'
import type { Caller, Scope } from '../../keys/index.ts'
import type { Session } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import type { Access } from './access.ts'
import { sandboxGone } from './errors.ts'
import { routeOf } from './routing.ts'
import type { Sandboxes } from './sandboxes.ts'

export interface Entered {
  readonly caller: Caller
  readonly session: Session
}

/** How a request for the inside of a sandbox gets there: routed, let in, and the sandbox awake. */
export class DataPlane {
  readonly #place: FrontPlace
  readonly #access: Access
  readonly #sandboxes: Sandboxes

  constructor(place: FrontPlace, access: Access, sandboxes: Sandboxes) {
    this.#place = place
    this.#access = access
    this.#sandboxes = sandboxes
  }

  async enter(request: FastifyRequest, scope: Scope): Promise<Entered> {
    const { id, session } = await this.#find(request)
    const caller = await this.#access.token(request, id, session, scope)
    return this.#awake(caller, session!, userOf(request.headers.authorization))
  }

  /** As `enter`, or with a signature in the query instead of a token. */
  async enterFile(
    request: FastifyRequest,
    operation: 'read' | 'write',
    query: { path?: string; username?: string; signature?: string; signature_expiration?: string },
  ): Promise<Entered> {
    const { username = '', signature, signature_expiration: expires } = query
    const user = username || userOf(request.headers.authorization)
    if (signature === undefined) {
      const { id, session } = await this.#find(request)
      const caller = await this.#access.token(request, id, session, operation === 'read' ? 'read' : 'exec')
      return this.#awake(caller, session!, user)
    }
    const candidates = await this.#candidates(request)
    const signed = { path: query.path ?? '', operation, username, signature }
    const found = await this.#access.signature(request, candidates, {
      ...signed,
      ...(expires ? { expires } : {}),
    })
    return this.#awake(found.caller, found.session, user)
  }

  async #find(request: FastifyRequest): Promise<{ id: string; session: Session | undefined }> {
    const routed = routeOf(request.raw, this.#sandboxes.domain)
    if (!routed)
      throw new SandboxError('invalid_argument', 'This request does not say which sandbox it is for.', {
        hint: 'Send E2b-Sandbox-Id, or ask <port>-<id>.<domain>.',
      })
    const { store, instanceId } = this.#place.services.sessions.context
    const session = await store.sessions.get(routed.id)
    return { id: routed.id, session: session?.instance_id === instanceId ? session : undefined }
  }

  async #candidates(request: FastifyRequest): Promise<Session[]> {
    if (!routeOf(request.raw, this.#sandboxes.domain)) {
      const { store, instanceId } = this.#place.services.sessions.context
      return store.sessions.live(instanceId)
    }
    const { session } = await this.#find(request)
    return session ? [session] : []
  }

  async #awake(caller: Caller, session: Session, user: string): Promise<Entered> {
    refuseUser(user)
    if (session.live === 0) throw sandboxGone(session.id)
    return { caller, session: await this.#sandboxes.reached(caller, session) }
  }
}

/** `Basic base64("<user>:")` is how the SDKs name one. */
function userOf(authorization: string | undefined): string {
  const encoded = /^basic +([\w+/=]+)$/i.exec(authorization ?? '')?.[1]
  return encoded === undefined ? '' : Buffer.from(encoded, 'base64').toString().split(':')[0]!
}

/** A sandbox here has one account; whatever it is called there, `user` is it. */
function refuseUser(user: string): void {
  if (user === '' || user === 'user' || user === 'sandbox') return
  throw new SandboxError('invalid_argument', `There is no user '${user}' in this sandbox.`, {
    hint: 'Leave the user out: a sandbox here has one account, and it is not root.',
  })
}
