import { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance } from 'fastify'
import type { Caller } from '../../keys/index.ts'
import type { Session } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import { addRoute, type FrontCall, type FrontRoute } from '../shared/route.ts'
import { liveSession } from '../shared/sessions.ts'

/** The facts that only Vercel's API has about a sandbox. */
export interface Kept {
  /** How long each run may take. */
  timeoutMs: number
  persistent: boolean
  runtime?: string
  currentSnapshotId?: string
  snapshotExpirationMs?: number
}

/** Marks sessions that this front created. Not shown among the tags. */
export const frontLabel = 'sandkasten.front'
export const frontName = 'vercel'

export type VercelCall = FrontCall

export type VercelRoute = Omit<FrontRoute, 'url'> & { readonly path: string }

/** Adds this front's routes, finds sandboxes, and keeps the vendor's facts about them. */
export class Entry {
  readonly place: FrontPlace
  readonly #app: FastifyInstance

  constructor(app: FastifyInstance, place: FrontPlace) {
    this.#app = app
    this.place = place
  }

  get services() {
    return this.place.services
  }

  /** Adds the route with and without the SDK's prefix, because a custom `fetch` may or may not remove it. */
  add({ path, ...route }: VercelRoute): void {
    const action = `${route.method} ${path}`
    for (const prefix of ['', '/api'])
      addRoute(this.#app, this.place, { ...route, url: `${prefix}${path}`, action })
  }

  /** The live sandbox with this name, for this project only. */
  async byName(caller: Caller, name: string): Promise<Session> {
    const found = await this.findByName(caller, name)
    if (found) return found
    throw new SandboxError('not_found', `There is no sandbox “${name}”.`, {
      hint: 'List sandboxes with Sandbox.list().',
    })
  }

  async findByName(caller: Caller, name: string): Promise<Session | undefined> {
    const [found] = await this.services.sessions.list(caller, {
      name,
      labels: { [frontLabel]: frontName },
      status: ['creating', 'running', 'paused', 'stopped', 'crashed'],
      limit: 1,
    })
    const { sessions } = this.services
    // Get the session by its id, which includes its newest use.
    return found && sessions.isHere(found) ? sessions.get(caller, found.id) : undefined
  }

  /** Finds a run of a sandbox by `sbx_<session>_<start>`. */
  async bySession(caller: Caller, sid: string): Promise<{ session: Session; incarnation: number }> {
    const [, id, start] = /^sbx_([a-z2-7]{16})_(\d{1,9})$/.exec(sid) ?? []
    const unknown = () =>
      new SandboxError('not_found', `There is no session ${sid}.`, {
        hint: 'Get the sandbox again with Sandbox.get().',
      })
    if (id === undefined) throw unknown()
    const session = await liveSession(this.services, caller, id, unknown)
    if (Number(start) > session.incarnation) throw unknown()
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
