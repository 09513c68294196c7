import { SandboxError } from '@sandkasten/sdk'
import { type DaemonConfig, isLoopback } from '../../config/index.ts'
import { type Caller, includes } from '../../keys/index.ts'
import { idleEnd, lifetimeEnd, networkOfRow, type Session } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import { finished, liveSession } from '../shared/sessions.ts'
import type { Access } from './access.ts'
import { networkOfCreate, networkView } from './network.ts'
import { sandboxGone } from './refusal.ts'
import type { CreateBody } from './schemas.ts'
import { templateOf } from './templates.ts'

/** The facts that only E2B's API has about a sandbox. */
export interface SandboxRecord {
  /** The requested template: the name of an image or a snapshot. */
  readonly template: string
  /** The last timeout. It applies again when traffic wakes the sandbox. */
  readonly timeoutMs: number
  readonly autoPause: boolean
  readonly autoResume: boolean
  readonly publicTraffic: boolean
}

interface ForkOptions {
  readonly count?: number
  readonly timeoutMs?: number
  readonly signal: AbortSignal
}

const kind = 'sandbox'
const defaultTimeoutMs = 300_000
/** SDKs derive the available features from this version. */
export const envdVersion = '0.6.4'

/** Shows sessions as E2B's sandboxes. A timeout is a lifetime; a paused sandbox is a paused or stopped session. */
export class Sandboxes {
  readonly #place: FrontPlace
  readonly #access: Access

  constructor(place: FrontPlace, access: Access) {
    this.#place = place
    this.#access = access
  }

  async create(
    caller: Caller,
    body: CreateBody,
    signal: AbortSignal,
  ): Promise<{ answer: object; notes: string[] }> {
    const { sessions } = this.#place.services
    const rules = await sessions.rules(caller)
    const template = body.templateID
    const source = await templateOf(this.#place, caller, template)
    const timeoutMs =
      body.timeout === undefined ? Math.min(defaultTimeoutMs, rules.longestLifetimeMs) : body.timeout * 1000
    const keepMemory = body.autoPauseMemory ?? true
    const { withheld, ...network } = networkOfCreate(body, { rules, provider: sessions.provider })
    const request = {
      ...source,
      ...accountOf(rules, source),
      labels: body.metadata ?? {},
      env: body.envVars ?? {},
      ...network,
      keepHeaders: true as const,
      // Only the timeout ends the sandbox. A paused sandbox is kept as long as the daemon allows.
      ttlMs: rules.longestIdleMs,
      onIdle: 'stop' as const,
      lifetimeMs: timeoutMs,
      onLifetime: body.autoPause ? this.#rest(keepMemory) : ('destroy' as const),
      user: this.#place.services.config.fronts.e2b?.user,
      wakeOnUse: false,
    }
    const { session } = await sessions.create(caller, request, signal)
    const record: SandboxRecord = {
      template,
      timeoutMs,
      autoPause: body.autoPause ?? false,
      autoResume: body.autoResume?.enabled ?? false,
      publicTraffic: body.network?.allowPublicTraffic ?? true,
    }
    const notes = withheld ? ['no internet access: the network open is not allowed here'] : []
    return { answer: await this.#kept(caller, session, record, signal), notes }
  }

  /** Makes sure that the sandbox runs. `resumed` is true if it did not run before. */
  async connect(
    caller: Caller,
    id: string,
    options: { timeoutMs?: number; reboot?: boolean },
  ): Promise<{ resumed: boolean; answer: object }> {
    const { sessions } = this.#place.services
    const session = await this.find(caller, id)
    const record = await this.record(session)
    const timeoutMs = options.timeoutMs ?? record.timeoutMs
    if (session.status === 'running') {
      // Never shortened: another client may rely on it.
      if (options.timeoutMs !== undefined) await sessions.extend(caller, id, options.timeoutMs)
      return { resumed: false, answer: await this.#opened(caller, session, record) }
    }
    const awake = await this.#wake(caller, session, timeoutMs, options.reboot ?? false)
    return { resumed: true, answer: await this.#opened(caller, awake, { ...record, timeoutMs }) }
  }

  async pause(caller: Caller, id: string, keepMemory: boolean): Promise<void> {
    const { sessions } = this.#place.services
    const session = await this.find(caller, id)
    if (session.status !== 'running')
      throw new SandboxError('conflict', `The sandbox ${id} is already paused.`)
    // Remove the lifetime first, so that it does not end during the pause.
    await sessions.setLifetime(caller, id, null)
    try {
      if (this.#rest(keepMemory) === 'pause') await sessions.pause(caller, id)
      else await sessions.stop(caller, id)
    } catch (error) {
      await sessions.setLifetime(caller, id, (await this.record(session)).timeoutMs).catch(() => {})
      throw error
    }
  }

  async setTimeout(caller: Caller, id: string, timeoutMs: number): Promise<void> {
    const session = await this.find(caller, id)
    if (session.status !== 'running') throw notFound(id)
    await this.#place.services.sessions.setLifetime(caller, id, timeoutMs)
    await this.#keep(caller, session, { ...(await this.record(session)), timeoutMs })
  }

  async kill(caller: Caller, id: string): Promise<void> {
    await this.find(caller, id)
    if (!(await this.#place.services.sessions.destroy(caller, id))) throw notFound(id)
  }

  async fork(
    caller: Caller,
    id: string,
    { count = 1, timeoutMs = defaultTimeoutMs, signal }: ForkOptions,
  ): Promise<object[]> {
    const { sessions } = this.#place.services
    const origin = await this.find(caller, id)
    const record = { ...(await this.record(origin)), timeoutMs }
    const copies = await sessions.snapshots.fork(caller, id, { count, signal })
    // A fork that fails is removed and returned as its error; the others stay.
    return Promise.all(
      copies.map(async (copy) => {
        try {
          if (copy instanceof Error) throw copy
          const lives = () => sessions.setLifetime(caller, copy.id, timeoutMs)
          const session = await finished(this.#place.services, caller, copy, lives)
          return { sandbox: await this.#kept(caller, session, record, signal) }
        } catch (error) {
          const known = SandboxError.is(error) ? error : new SandboxError('internal', 'The copy failed.')
          return { error: { code: known.status, message: known.message } }
        }
      }),
    )
  }

  /** The caller's live sandbox. An ended one is not found. */
  async find(caller: Caller, id: string): Promise<Session> {
    const session = await liveSession(this.#place.services, caller, id, () => notFound(id))
    if (session.status === 'creating') throw notFound(id)
    return session
  }

  /** Returns the running session for a request to the data plane. Wakes it if it was created with auto-resume. */
  async reached(caller: Caller, session: Session): Promise<Session> {
    if (session.status === 'running') return session
    const record = await this.record(session)
    if (session.live === 0 || session.status === 'creating' || !record.autoResume)
      throw sandboxGone(session.id)
    return this.#wake(caller, session, Math.max(record.timeoutMs, defaultTimeoutMs), false)
  }

  /** The sandbox's record. A session that this front did not create gets a default, with closed ports. */
  async record(session: Session): Promise<SandboxRecord> {
    const found = await this.#place.records.get<SandboxRecord>(session.project_id, kind, session.id)
    return (
      found ?? {
        template: session.snapshot_id ?? session.image,
        timeoutMs: defaultTimeoutMs,
        autoPause: session.on_lifetime !== 'destroy',
        autoResume: false,
        publicTraffic: false,
      }
    )
  }

  async records(projectId: string): Promise<Map<string, SandboxRecord>> {
    const rows = await this.#place.records.list<SandboxRecord>(projectId, kind)
    return new Map(rows.map(({ key, data }) => [key, data]))
  }

  listed(session: Session, record: SandboxRecord | undefined): object {
    const { services } = this.#place
    return {
      sandboxID: session.id,
      templateID: record?.template ?? session.snapshot_id ?? session.image,
      alias: record?.template ?? session.image,
      clientID: 'sandkasten',
      startedAt: new Date(session.started_at).toISOString(),
      endAt: new Date(lifetimeEnd(session) ?? idleEnd(session)).toISOString(),
      state: session.status === 'running' ? 'running' : 'paused',
      cpuCount: Math.max(1, Math.round(session.cpu)),
      memoryMB: session.mem_mb,
      diskSizeMB: session.disk_mb || services.config.max.disk_limit_mb,
      envdVersion,
      metadata: JSON.parse(session.labels),
      volumeMounts: [],
    }
  }

  async detail(caller: Caller, session: Session): Promise<object> {
    const record = await this.record(session)
    return {
      ...this.listed(session, record),
      domain: this.domain,
      envdAccessToken: includes(caller.scopes, 'exec')
        ? await this.#access.tokenFor(session.id, caller)
        : undefined,
      allowInternetAccess: session.network === 'open',
      network: { allowPublicTraffic: record.publicTraffic, ...networkView(networkOfRow(session)) },
      lifecycle: { onTimeout: record.autoPause ? 'pause' : 'kill', autoResume: record.autoResume },
    }
  }

  /** Ports are at `<port>-<id>.<domain>`. */
  get domain(): string {
    const { hostname, host, port } = new URL(this.#place.url)
    return isLoopback(hostname.replace(/^\[|\]$/g, '')) ? `localhost${port ? `:${port}` : ''}` : host
  }

  /** Answers with the new sandbox after its record is written. */
  #kept(caller: Caller, session: Session, record: SandboxRecord, signal: AbortSignal): Promise<object> {
    const rest = async () => {
      await this.#keep(caller, session, record)
      return this.#opened(caller, session, record)
    }
    return finished(this.#place.services, caller, session, rest, signal)
  }

  async #opened(caller: Caller, session: Session, record: SandboxRecord): Promise<object> {
    return {
      sandboxID: session.id,
      templateID: record.template,
      alias: record.template,
      clientID: 'sandkasten',
      envdVersion,
      envdAccessToken: await this.#access.tokenFor(session.id, caller),
      trafficAccessToken: record.publicTraffic ? null : await this.#access.trafficToken(session.id),
      domain: this.domain,
    }
  }

  async #wake(caller: Caller, session: Session, timeoutMs: number, reboot: boolean): Promise<Session> {
    const { sessions } = this.#place.services
    const { id } = session
    if (session.status === 'paused' && reboot) await sessions.stop(caller, id)
    // A paused sandbox keeps its old end, which may have passed. A started one counts from now.
    if (session.status === 'paused' && !reboot) await sessions.setLifetime(caller, id, timeoutMs)
    await sessions.start(caller, id)
    const awake = await sessions.setLifetime(caller, id, timeoutMs)
    await this.#keep(caller, awake, { ...(await this.record(awake)), timeoutMs })
    return awake
  }

  #rest(keepMemory: boolean): 'pause' | 'stop' {
    const { capabilities } = this.#place.services.sessions.provider
    return keepMemory && capabilities.pause ? 'pause' : 'stop'
  }

  #keep(caller: Caller, session: Session, record: SandboxRecord): Promise<void> {
    return this.#place.records.put(caller.projectId, kind, session.id, record, session.id)
  }
}

/** E2B's users expect the account `user`. Images of the store have accounts of their own. */
function accountOf(
  { default_image, images }: Pick<DaemonConfig, 'default_image' | 'images'>,
  source: { image?: string } | { snapshotId: string },
): { account?: string } {
  if ('snapshotId' in source) return { account: 'user' }
  const image = source.image ?? default_image
  return (images[image] ?? image) === 'host' ? { account: 'user' } : {}
}

function notFound(id: string): SandboxError {
  return new SandboxError('not_found', `The sandbox ${id} was not found.`, {
    hint: 'The sandbox has ended, or never existed.',
  })
}
