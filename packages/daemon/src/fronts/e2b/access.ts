import { createHash, createHmac } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { SandboxError } from '@sandkasten/sdk'
import type { FastifyRequest } from 'fastify'
import type { Services } from '../../api/index.ts'
import { type Caller, includes, type Scope, sameHash } from '../../keys/index.ts'
import { linkSecret } from '../../ports/index.ts'
import type { Session } from '../../sessions/index.ts'
import { sandboxGone } from './errors.ts'

/**
 * Who asks, in the three ways in which E2B's SDKs say it:
 *
 *     X-API-KEY                 a key of ours, as it is or as `e2b_` and its hexadecimal digits (some versions of the SDK accept only that form)
 *     X-Access-Token            given out when a sandbox is created or connected to: names the key, and holds for one sandbox
 *     ?signature=               of a file's path, made by the client from the access token
 *
 * Access tokens are kept nowhere: they are signatures of session and key. A key that is revoked ends those that it was given.
 */
export class Access {
  readonly #services: Services
  #secret: Promise<string> | undefined

  constructor(services: Services) {
    this.#services = services
  }

  /** For the control plane. */
  async key(request: FastifyRequest, scope: Scope): Promise<Caller> {
    const given = request.headers['x-api-key']
    const header =
      typeof given === 'string' ? `Bearer ${plainKey(given)}` : (request.headers.authorization ?? '')
    const caller = await this.#services.keys.authenticate(header, request.id)
    request.caller = caller
    return allowed(caller, scope)
  }

  /** For one sandbox's data plane. Who has a token of it learns that it is not there any more; nobody else learns anything. */
  async token(
    request: FastifyRequest,
    id: string,
    session: Session | undefined,
    scope: Scope,
  ): Promise<Caller> {
    const given = request.headers['x-access-token']
    const keyId = typeof given === 'string' ? given.split('.')[0]! : ''
    if (typeof given !== 'string' || !same(given, await this.tokenOf(id, keyId))) throw noAccess()
    if (!session) throw sandboxGone(id)
    const caller = await this.#services.keys.callerOf(session.project_id, keyId, request.id)
    if (!caller) throw noAccess()
    request.caller = caller
    return allowed(caller, scope)
  }

  /**
   * For a file whose path was signed: the sandbox and the key that the signature was made with. An address with a signature need not
   * name its sandbox (the SDK's do not, where it was given one address for all), so it is looked for among those that may be meant.
   */
  async signature(
    request: FastifyRequest,
    candidates: readonly Session[],
    signed: {
      path: string
      operation: 'read' | 'write'
      username: string
      signature: string
      expires?: string
    },
  ): Promise<{ caller: Caller; session: Session }> {
    const { path, operation, username, signature, expires } = signed
    if (!/^v1_[\w+/]{43}$/.test(signature)) throw noAccess()
    if (expires !== undefined && !(Number(expires) * 1000 > Date.now())) throw noAccess()
    const keys = new Map<string, readonly { id: string }[]>()
    for (const session of candidates) {
      const project = session.project_id
      const rows = keys.get(project) ?? (await this.#services.keys.list(project))
      keys.set(project, rows)
      for (const { id } of rows) {
        const end = expires === undefined ? '' : `:${expires}`
        const text = `${path}:${operation}:${username}:${await this.tokenOf(session.id, id)}${end}`
        const made = createHash('sha256').update(text).digest('base64').replace(/=+$/, '')
        if (!same(signature, `v1_${made}`)) continue
        const caller = await this.#services.keys.callerOf(project, id, request.id)
        if (!caller) throw noAccess()
        request.caller = caller
        return { caller: allowed(caller, operation === 'read' ? 'read' : 'exec'), session }
      }
    }
    throw noAccess()
  }

  /** What opens a sandbox's data plane for a key. */
  async tokenOf(sessionId: string, keyId: string): Promise<string> {
    return `${keyId}.${await this.#sign(`e2b access ${sessionId} ${keyId}`)}`
  }

  /** What opens its ports for everybody who has it. */
  trafficToken(sessionId: string): Promise<string> {
    return this.#sign(`e2b traffic ${sessionId}`)
  }

  async bringsTrafficToken(request: IncomingMessage, sessionId: string): Promise<boolean> {
    const given = request.headers['e2b-traffic-access-token']
    return typeof given === 'string' && same(given, await this.trafficToken(sessionId))
  }

  async #sign(text: string): Promise<string> {
    this.#secret ??= linkSecret(this.#services.config.data_dir)
    return createHmac('sha256', await this.#secret)
      .update(text)
      .digest('base64url')
  }
}

/** Our key out of what a client sends. */
export function plainKey(given: string): string {
  const hex = /^e2b_((?:[0-9a-f]{2})+)$/.exec(given)?.[1]
  if (hex === undefined) return given
  const key = Buffer.from(hex, 'hex').toString('latin1')
  return /^[!-~]{8,512}$/.test(key) ? key : given
}

function same(a: string, b: string): boolean {
  return sameHash(createHash('sha256').update(a).digest('hex'), createHash('sha256').update(b).digest('hex'))
}

function allowed(caller: Caller, scope: Scope): Caller {
  if (includes(caller.scopes, scope)) return caller
  throw new SandboxError('forbidden', `This needs a key with the scope “${scope}”.`, {
    details: { scope },
    hint: 'Use another key.',
  })
}

function noAccess(): SandboxError {
  return new SandboxError('unauthenticated', 'This needs a valid access token of the sandbox.')
}
