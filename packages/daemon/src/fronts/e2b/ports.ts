import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import { answerAndClose, refusalCloses } from '../../http/closing-connections.ts'
import { translate } from '../../http/problems.ts'
import type { Caller } from '../../keys/index.ts'
import type { Target, Visit } from '../../ports/index.ts'
import { type Passable, withoutCredentials } from '../../preview/credential-filter.ts'
import { forward } from '../../preview/forward.ts'
import { requestHeaders } from '../../preview/request-headers.ts'
import { refuseOdd } from '../../preview/server.ts'
import { asksForWebSocket, tunnel } from '../../preview/tunnel.ts'
import type { FrontPlace } from '../front.ts'
import type { Access } from './access.ts'
import type { Sandboxes } from './lifecycle.ts'
import { gone, isGone, sandboxGone } from './refusal.ts'
import type { Routed } from './routing.ts'

/** Ports of sandboxes. All are public, unless the sandbox was created with private ports, which need a token. */
export class Ports {
  readonly #place: FrontPlace
  readonly #access: Access
  readonly #sandboxes: Sandboxes

  constructor(place: FrontPlace, access: Access, sandboxes: Sandboxes) {
    this.#place = place
    this.#access = access
    this.#sandboxes = sandboxes
  }

  async request(routed: Routed, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { visits, connections, patience } = this.#place.services
    response.on('error', () => response.destroy())
    let leave = () => {}
    try {
      const { visit, target, port, passable } = await this.#admit(routed, request)
      leave = connections.enter(routed.id, routed.port, () => response.destroy())
      await forward(request, response, {
        port,
        target,
        path: passable.path,
        headers: this.#headers(request, target, passable),
        bodyIdleMs: patience.bodyMs,
        touch: () => visits.touch(visit),
      })
    } catch (error) {
      const close = await refusalCloses(request)
      if (response.headersSent || response.destroyed) return void response.destroy()
      const { status, body } = this.#refusal(routed, error)
      response.writeHead(status, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        ...(close ? { connection: 'close' } : {}),
      })
      response.end(body)
    } finally {
      leave()
    }
  }

  async upgrade(routed: Routed, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { visits, connections } = this.#place.services
    let leave = () => {}
    try {
      if (!asksForWebSocket(request))
        throw new SandboxError('invalid_argument', 'Only WebSocket upgrades are supported.')
      const { visit, target, port, passable } = await this.#admit(routed, request)
      leave = connections.enter(routed.id, routed.port, () => socket.destroy())
      await tunnel(socket, head, {
        port,
        target,
        path: passable.path,
        headers: this.#headers(request, target, passable, true),
        touch: () => visits.touch(visit),
      })
    } catch (error) {
      const { status, body } = this.#refusal(routed, error)
      answerAndClose(socket, { status, title: 'Refused', type: 'application/json', body })
    } finally {
      leave()
    }
  }

  async #admit(routed: Routed, request: IncomingMessage) {
    refuseOdd(request)
    const { services } = this.#place
    const requestId = randomUUID()
    const session = await services.sessions.lookup(routed.id)
    const record = session && (await this.#sandboxes.record(session))
    const known = await this.#access.bringsTrafficToken(request, routed.id)
    // A private sandbox and a missing one get the same response.
    if (
      !session ||
      !services.sessions.isHere(session) ||
      session.live === 0 ||
      !(known || record!.publicTraffic)
    )
      throw sandboxGone(routed.id)
    const caller: Caller = { projectId: session.project_id, keyId: 'e2b-traffic', scopes: [], requestId }
    const awake = await this.#sandboxes.reached(caller, session)
    const visit: Visit = {
      session: awake,
      row: {
        session_id: awake.id,
        port: routed.port,
        visibility: known ? 'token' : 'public',
        wake: 0,
        token_hash: null,
        generation: '',
        created_at: awake.created_at,
      },
      stranger: !known,
    }
    const target: Target = { ...routed, form: 'name', prefix: '', rest: request.url! }
    const passable = await withoutCredentials(request, request.url!, services.keys)
    return { visit, target, passable, port: await services.visits.reach(visit, requestId) }
  }

  #headers(request: IncomingMessage, target: Target, passable: Passable, websocket = false): string[] {
    const { config } = this.#place.services
    const secure = this.#place.url.startsWith('https:')
    return requestHeaders(request, { target, passable, secure, behindProxy: config.behind_tls }, websocket)
  }

  #refusal({ id, port }: Routed, error: unknown): { status: number; body: string } {
    const known = translate(error)
    if (known.code === 'internal')
      this.#place.services.log.error(
        { front: 'e2b', err: known.cause ?? known },
        'unexpected error in a request',
      )
    const closed = SandboxError.is(known, 'connection_lost')
      ? new SandboxError('unavailable', 'The sandbox is running but port is not open', {
          details: { e2bGone: id, port },
        })
      : known
    if (isGone(closed)) return { status: 502, body: JSON.stringify(gone(closed)) }
    return { status: known.status, body: JSON.stringify({ code: known.status, message: known.message }) }
  }
}
