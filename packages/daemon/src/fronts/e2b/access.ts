import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { SandboxError } from '@sandkasten/sdk'
import type { FastifyRequest } from 'fastify'
import type { Services } from '../../http/services.ts'
import { type Caller, plainKey, sameHash } from '../../keys/index.ts'
import { linkSecret } from '../../ports/index.ts'
import type { Session } from '../../sessions/index.ts'
import { Budget } from './attempt-budget.ts'
import { sandboxGone } from './refusal.ts'

/** Limits the tried pairs of sandbox and key, each of which takes microseconds. Reading the list costs some pairs too. */
const triesPerSecond = 5000
const lookCost = 50

interface Signed {
  readonly path: string
  readonly operation: 'read' | 'write'
  readonly username: string
  readonly signature: string
  readonly expires?: string
}

/**
 * Authenticates requests in the three ways that E2B's SDKs use:
 *
 *     X-API-KEY        one of our keys, plain or as `e2b_` and hexadecimal digits (some SDKs accept only that)
 *     X-Access-Token   from create or connect: names the key, and is valid for one sandbox
 *     ?signature=      of a file's path, which the client creates with the access token
 *
 * Access tokens are signatures of session and key, and are stored nowhere. Revoking the key ends them.
 */
export class Access {
  readonly #services: Services
  readonly #unknown: Budget
  #secret: Promise<string> | undefined

  constructor(services: Services, unknown = new Budget(triesPerSecond)) {
    this.#services = services
    this.#unknown = unknown
  }

  /** Authenticates a request to the control plane. */
  key(request: FastifyRequest): Promise<Caller> {
    const given = request.headers['x-api-key']
    const header =
      typeof given === 'string' ? `Bearer ${plainKey(given)}` : (request.headers.authorization ?? '')
    return this.#services.keys.authenticate(header, request.id)
  }

  /** Authenticates a request to a sandbox's data plane. Only a valid token reveals that the sandbox has ended. */
  async token(request: FastifyRequest, id: string, session: Session | undefined): Promise<Caller> {
    const given = request.headers['x-access-token']
    const keyId = typeof given === 'string' ? given.split('.')[0]! : ''
    if (typeof given !== 'string' || !same(given, await this.tokenOf(id, keyId))) throw noAccess()
    if (!session) throw sandboxGone(id)
    const caller = await this.#services.keys.callerOf(session.project_id, keyId, request.id)
    if (!caller) throw noAccess()
    return caller
  }

  /**
   * Finds the sandbox and the key of a signed file URL. Such a URL need not name its sandbox: SDKs with a single
   * address leave it out. Then all sandboxes are candidates. That search costs more than the request, so failed
   * searches are limited.
   */
  async signature(
    request: FastifyRequest,
    among: { sessions: () => Promise<readonly Session[]>; all: boolean },
    signed: Signed,
  ): Promise<{ caller: Caller; session: Session }> {
    if (!/^v1_[\w+/]{43}$/.test(signed.signature)) throw noAccess()
    if (signed.expires !== undefined && !(Number(signed.expires) * 1000 > Date.now())) throw noAccess()
    let spent = 0
    const spend = (cost: number) => {
      if (among.all) this.#unknown.spend(cost)
      spent += cost
    }
    if (among.all) this.#unknown.check()
    spend(lookCost)
    const keys = new Map<string, readonly string[]>()
    for (const session of await among.sessions()) {
      const ids = keys.get(session.project_id) ?? (await this.#services.keys.usableIds(session.project_id))
      keys.set(session.project_id, ids)
      spend(ids.length)
      for (const id of ids) {
        if (!fits(signed, await this.tokenOf(session.id, id))) continue
        const caller = await this.#services.keys.callerOf(session.project_id, id, request.id)
        if (!caller) throw noAccess()
        spend(-spent)
        return { caller, session }
      }
    }
    throw noAccess()
  }

  /** The token that opens a sandbox's data plane for the caller, as long as the caller's key or token is valid. */
  async tokenFor(sessionId: string, caller: Caller): Promise<string> {
    return this.tokenOf(sessionId, await this.#services.keys.lastingId(caller))
  }

  /** The token that opens a sandbox's data plane for a key. */
  async tokenOf(sessionId: string, keyId: string): Promise<string> {
    return `${keyId}.${sessionId}.${await this.#sign(`e2b access ${sessionId} ${keyId}`)}`
  }

  /** The sandbox that the token names. Older SDKs do not name it in another way after a connect. */
  static sandboxOf(request: FastifyRequest): string | undefined {
    const given = request.headers['x-access-token']
    return typeof given === 'string' ? /^[^.]+\.([a-z0-9]{1,60})\./.exec(given)?.[1] : undefined
  }

  /** The token that opens the sandbox's ports. */
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

function fits({ path, operation, username, signature, expires }: Signed, token: string): boolean {
  const end = expires === undefined ? '' : `:${expires}`
  const made = createHash('sha256').update(`${path}:${operation}:${username}:${token}${end}`)
  return timingSafeEqual(
    Buffer.from(signature.slice('v1_'.length)),
    Buffer.from(made.digest('base64').replace(/=+$/, '')),
  )
}

function same(a: string, b: string): boolean {
  return sameHash(createHash('sha256').update(a).digest('hex'), createHash('sha256').update(b).digest('hex'))
}

function noAccess(): SandboxError {
  return new SandboxError('unauthenticated', 'This needs a valid access token of the sandbox.')
}
