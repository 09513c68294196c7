import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import { type Caller, hashOf } from '../keys/index.ts'
import { type Context, checkCount, type Session, type SessionService } from '../sessions/index.ts'
import type { PortRow } from '../store/index.ts'
import type { Addresses } from './addresses.ts'
import type { Connections } from './connections.ts'
import { listeningPorts } from './listening-ports.ts'
import { type Links, newToken } from './signed-links.ts'

export interface PortChanges {
  port: number
  /** `private`: a key or a signed link; `token`: also the port's token; `public`: no credentials. */
  visibility?: PortRow['visibility']
  wakeOnVisit?: boolean
  /** Creates a new token and revokes all existing links. */
  rotate?: boolean
}

export interface PortState {
  readonly port: number
  readonly row?: PortRow
  /** Whether a program listens on the port now. Undefined when unknown. */
  readonly listening?: boolean
}

export interface Opened {
  readonly row: PortRow
  /** Only set when the token is new. */
  readonly token?: string
}

/** The parts of the daemon that open ports need beside `SessionService`. */
export type PortContext = Pick<Context, 'store' | 'events' | 'provider'>

/** Opens ports of sessions to the outside and controls access to them. */
export class PortService {
  readonly #context: PortContext
  readonly #sessions: SessionService
  readonly #links: Links
  readonly #connections: Connections
  /** Undefined when previews are off, and until their listener has an address. */
  addresses: Addresses | undefined

  constructor(context: PortContext, sessions: SessionService, links: Links, connections: Connections) {
    this.#context = context
    this.#sessions = sessions
    this.#links = links
    this.#connections = connections
  }

  /** Opens a port or changes it. Omitted settings stay; a new port is private. */
  async open(caller: Caller, id: string, changes: PortChanges): Promise<Opened> {
    const session = await this.#sessions.use.findHere(caller, id)
    this.#served()
    if (session.live === 0)
      throw new SandboxError('gone', `The session ${id} is ${session.status}.`, {
        hint: 'Create a new session.',
      })
    const { store, events } = this.#context
    return this.#sessions.locked(`${id} ports`, async () => {
      const before = await store.ports.get(id, changes.port)
      if (!before) checkCount((await store.ports.list(id)).length, 'openPorts')
      const visibility = changes.visibility ?? before?.visibility ?? 'private'
      const fresh = visibility === 'token' && (!before?.token_hash || changes.rotate)
      const token = fresh ? newToken() : undefined
      const row: PortRow = {
        session_id: id,
        port: changes.port,
        visibility,
        wake: (changes.wakeOnVisit ?? before?.wake === 1) ? 1 : 0,
        token_hash: visibility !== 'token' ? null : token ? hashOf(token) : before!.token_hash,
        generation: before && !changes.rotate ? before.generation : randomId(),
        created_at: before?.created_at ?? Date.now(),
      }
      await store.ports.put(row)
      // Visitors that were admitted by the old rules must reconnect.
      if (before && (before.visibility !== visibility || changes.rotate)) this.#connections.cut(id, row.port)
      if (!before || before.visibility !== visibility)
        events.publish({
          projectId: session.project_id,
          sessionId: id,
          type: 'port.opened',
          data: { port: row.port, visibility, by: `key:${caller.keyId}` },
        })
      return { row, token }
    })
  }

  /** Open ports, and with isolation also ports on which a program listens. Does not wake the session. */
  async list(caller: Caller, id: string): Promise<PortState[]> {
    const session = await this.#sessions.use.findHere(caller, id)
    const rows = await this.#context.store.ports.list(id)
    const listening = await this.#listening(caller, session)
    const ports = new Map<number, PortState>()
    // Without isolation the table is the machine's, so it also has ports of other programs.
    if (this.#sessions.provider.isolation !== 'none')
      for (const port of listening ?? []) ports.set(port, { port, listening: true })
    for (const row of rows) ports.set(row.port, { port: row.port, row, listening: listening?.has(row.port) })
    return [...ports.values()].sort((a, b) => a.port - b.port)
  }

  /** The open ports of a session that was found for its caller. Does not look into the sandbox. */
  listOpen({ id }: Session): Promise<PortRow[]> {
    return this.#context.store.ports.list(id)
  }

  async get(caller: Caller, id: string, port: string): Promise<PortState> {
    const found = (await this.list(caller, id)).find((state) => String(state.port) === port && state.row)
    if (found) return found
    throw notOpen(port)
  }

  /** Closes the port and cuts its connections. False when it was closed already. */
  async close(caller: Caller, id: string, port: string): Promise<boolean> {
    const session = await this.#sessions.use.findHere(caller, id)
    if (!/^[1-9]\d{0,4}$/.test(port)) throw notOpen(port)
    const closed = await this.#context.store.ports.delete(id, Number(port))
    this.#connections.cut(id, Number(port))
    if (closed)
      this.#context.events.publish({
        projectId: session.project_id,
        sessionId: id,
        type: 'port.closed',
        data: { port: Number(port), by: `key:${caller.keyId}` },
      })
    return closed
  }

  /** Signs a link that needs no key and expires. */
  async link(
    caller: Caller,
    id: string,
    port: string,
    options: { expiresInMs: number; path: string },
  ): Promise<{ url?: string; pathUrl: string; token: string; expiresAt: number }> {
    await this.#sessions.use.findHere(caller, id)
    const row = /^[1-9]\d{0,4}$/.test(port)
      ? await this.#context.store.ports.get(id, Number(port))
      : undefined
    if (!row) throw notOpen(port)
    const addresses = this.#served()
    const expiresAt = Math.ceil((Date.now() + options.expiresInMs) / 1000) * 1000
    const token = this.#links.sign(row, expiresAt)
    const named = addresses.url(id, row.port)
    const [path, fragment = ''] = split(options.path, '#')
    const query = `${path.includes('?') ? '&' : '?'}sandkasten_token=${token}`
    return {
      url: named && `${named}${path}${query}${fragment}`,
      pathUrl: `${addresses.pathUrl(id, row.port)}/~${token}${options.path}`,
      token,
      expiresAt,
    }
  }

  #served(): Addresses {
    if (this.addresses) return this.addresses
    throw new SandboxError('unsupported', 'This daemon serves no previews.', {
      hint: 'Ask the operator to set preview_listen.',
    })
  }

  async #listening(caller: Caller, session: Session): Promise<Set<number> | undefined> {
    if (session.status !== 'running') return undefined
    const { sandbox, release } = await this.#sessions.use.take(caller, session.id, { wake: false })
    try {
      const { stdout } = await sandbox.runCommand({
        cmd: 'cat',
        args: ['/proc/net/tcp', '/proc/net/tcp6'],
        timeoutMs: 5_000,
      })
      return stdout === '' ? undefined : new Set(listeningPorts(stdout))
    } catch (error) {
      // The image has no cat, so the ports are unknown.
      if (SandboxError.is(error, 'command_not_found', 'permission_denied')) return undefined
      throw error
    } finally {
      release()
    }
  }
}

function notOpen(port: string): SandboxError {
  return new SandboxError('not_found', `The port ${port} of the session is not open.`, {
    hint: {
      sdk: 'Open it with openPort().',
      http: 'Open it with POST /v1/sessions/{id}/ports.',
      cli: 'Open it with sandkasten ports open.',
    },
  })
}

function split(text: string, mark: string): [string, string?] {
  const at = text.indexOf(mark)
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at)]
}
