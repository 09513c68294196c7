import type { Caller } from '../keys/index.ts'
import type { SessionStatus } from '../store/index.ts'
import { Commands } from './commands/commands.ts'
import type { ResultMemory } from './commands/result-memory.ts'
import type { Context, DaemonProvider, Session } from './context.ts'
import { type Created, Creator } from './create.ts'
import { extendLease, type LeaseChanges, setLeases } from './leases/extend-lease.ts'
import { LeaseWriter } from './leases/lease-writer.ts'
import { Reaper } from './leases/reaper.ts'
import { Lifecycle, type Meant } from './lifecycle.ts'
import { ConcurrencyLimit } from './limits/concurrency-limit.ts'
import { type Rules, rulesOf } from './limits/policy.ts'
import { quotasOf } from './limits/quotas.ts'
import { checkEnv, checkLabels, checkName } from './limits/request-limits.ts'
import { StoreBudget } from './limits/store-budget.ts'
import type { Open } from './live-sessions.ts'
import { NetworksOfSessions } from './network/networks.ts'
import type { CreateRequest } from './plan.ts'
import { Reconciler } from './reconcile.ts'
import { imageOfRuntime } from './runtime.ts'
import { SnapshotsOfSessions } from './snapshots.ts'
import { notUsable } from './status.ts'
import { Terminals } from './terminals.ts'
import { Use } from './use.ts'
import { VolumesOfProjects } from './volumes/volumes.ts'

/** The facts about the provider that other folders may use. */
export type ProviderFacts = Pick<DaemonProvider, 'isolation' | 'capabilities' | 'createOptions'>

/** The public interface of this folder. It hides the store and the provider. */
export class SessionService {
  readonly #context: Context
  readonly use: Use
  readonly commands: Commands
  readonly snapshots: SnapshotsOfSessions
  readonly volumes: VolumesOfProjects
  readonly networks: NetworksOfSessions
  readonly terminals: Terminals
  readonly reaper: Reaper
  readonly reconciler: Reconciler
  readonly leases: LeaseWriter
  /** Limits the memory that each project's requests and responses use. */
  readonly memory: ResultMemory
  readonly provider: ProviderFacts
  /** Limits how many calls that may need much memory run at once. */
  readonly largeCalls = new ConcurrencyLimit()
  readonly #lifecycle: Lifecycle
  readonly #creator: Creator

  constructor(context: Context) {
    this.#context = context
    this.memory = context.memory
    this.provider = context.provider
    this.#lifecycle = new Lifecycle(context)
    this.#creator = new Creator(context)
    this.use = new Use(context, this.#lifecycle)
    const budget = new StoreBudget(context)
    this.commands = new Commands(context, this.use, budget)
    this.#lifecycle.onResumed = (session) => void this.#recover(session)
    this.snapshots = new SnapshotsOfSessions(context, this.use, this.#creator)
    this.volumes = new VolumesOfProjects(context)
    this.networks = new NetworksOfSessions(context, this.use)
    this.terminals = new Terminals(context, this.use)
    this.leases = new LeaseWriter(context)
    this.reaper = new Reaper(context, this.#lifecycle, this.commands, budget)
    this.reconciler = new Reconciler(context, {
      lifecycle: this.#lifecycle,
      creator: this.#creator,
      commands: this.commands,
      use: this.use,
      volumes: this.volumes,
    })
  }

  async create(caller: Caller, request: CreateRequest, signal?: AbortSignal): Promise<Created> {
    checkName(request.name)
    checkLabels(request.labels)
    checkEnv(request.env)
    const { keepHeaders, network, ...rest } = request
    if (!keepHeaders || network === undefined)
      return this.#creator.create(caller, { ...rest, network }, signal)
    const kept = await this.networks.withKeptHeaders(caller, network)
    return this.#creator.create(caller, { ...rest, network: kept }, signal)
  }

  get(caller: Caller, id: string): Promise<Session> {
    return this.use.find(caller, id)
  }

  /**
   * Finds a session of any project, without a caller. Only for requests that prove their access in another way, such as
   * a signed URL; the proof must be checked before the session is used.
   */
  lookup(id: string): Promise<Session | undefined> {
    return this.#context.store.sessions.get(id)
  }

  /** The live sessions of this daemon, of all projects. The restriction of `lookup` applies. */
  lookupAll(): Promise<Session[]> {
    return this.#context.store.sessions.live(this.#context.instanceId)
  }

  /** Whether this daemon, and not another one on the same database, owns the session or snapshot. */
  isHere({ instance_id }: Pick<Session, 'instance_id'>): boolean {
    return instance_id === this.#context.instanceId
  }

  /** Extends the idle lease, and remembers the working directory if one is given. */
  touch(id: string, cwd?: string): void {
    this.#context.live.touch(id, cwd)
  }

  /** Keeps the reaper away from the session until the returned function is called. */
  hold(id: string): () => void {
    return this.#context.live.hold(id)
  }

  /** Runs `work` alone among all calls with this key. A session's own id is the key for changes of its state. */
  locked<T>(key: string, work: () => Promise<T>): Promise<T> {
    return this.#context.live.locked(key, work)
  }

  /** The session's open handles; undefined while nothing is open. */
  opened({ id, incarnation }: Session): Open | undefined {
    return this.#context.live.opened(id, incarnation)
  }

  /** The sandbox's current resource usage. Undefined when the provider does not measure it. */
  async stats({ sandbox_id: sandboxId }: Session): Promise<object | undefined> {
    return sandboxId === null ? undefined : this.#context.provider.stats?.(sandboxId)
  }

  /** Returns one page, newest first. */
  list(
    caller: Caller,
    filter: {
      status?: readonly SessionStatus[]
      name?: string
      subject?: string
      labels?: Readonly<Record<string, string>>
      limit: number
      after?: { createdAt: number; id: string }
    },
  ): Promise<Session[]> {
    return this.#context.store.sessions.list({ ...filter, projectId: caller.projectId })
  }

  async start(caller: Caller, id: string, meant: Meant = {}): Promise<Session> {
    await this.use.findHere(caller, id)
    return this.#lifecycle.start(id, `key:${caller.keyId}`, meant)
  }

  async stop(caller: Caller, id: string, meant: Meant = {}): Promise<Session> {
    await this.use.findHere(caller, id)
    return this.#lifecycle.stop(id, `key:${caller.keyId}`, meant)
  }

  async pause(caller: Caller, id: string, meant: Meant = {}): Promise<Session> {
    await this.use.findHere(caller, id)
    return this.#lifecycle.pause(id, `key:${caller.keyId}`, meant)
  }

  async resume(caller: Caller, id: string, meant: Meant = {}): Promise<Session> {
    await this.use.findHere(caller, id)
    return this.#lifecycle.resume(id, `key:${caller.keyId}`, meant)
  }

  async destroy(caller: Caller, id: string): Promise<boolean> {
    await this.use.findHere(caller, id)
    return this.#lifecycle.destroy(id, `key:${caller.keyId}`)
  }

  /** Extends the idle lease and the lifetime to at least this long from now. Never shortens them. */
  extend(caller: Caller, id: string, ms: number, meant: Meant = {}): Promise<Session> {
    return extendLease(this.#context, this.use, caller, id, ms, meant)
  }

  /** Replaces leases of the session. This counts as activity. */
  setLeases(caller: Caller, id: string, leases: LeaseChanges): Promise<Session> {
    return setLeases(this.#context, this.use, caller, id, leases)
  }

  /** Sets the remaining lifetime, longer or shorter than before. Null removes the limit. */
  setLifetime(caller: Caller, id: string, ms: number | null): Promise<Session> {
    return this.setLeases(caller, id, { lifetimeMs: ms })
  }

  /** Changes the given labels; null removes one. This is not activity. */
  async setLabels(
    caller: Caller,
    id: string,
    changes: Readonly<Record<string, string | null>>,
  ): Promise<Session> {
    const { store, live } = this.#context
    await this.use.findHere(caller, id)
    return live.locked(id, async () => {
      const session = await this.use.findHere(caller, id)
      if (session.live === 0) throw notUsable(session)
      const merged = Object.entries({ ...JSON.parse(session.labels), ...changes })
      const labels = Object.fromEntries(merged.filter(([, value]) => value !== null)) as Record<
        string,
        string
      >
      checkLabels(labels)
      return (await store.sessions.update(id, undefined, { labels: JSON.stringify(labels) })) ?? session
    })
  }

  /** The audit log of the caller's project, newest first. */
  audit(caller: Caller, options: { before?: number; limit: number }) {
    return this.#context.store.records.audit(caller.projectId, options)
  }

  /** What the caller's project may use: the configuration, narrowed by the project's policy. */
  rules(caller: Pick<Caller, 'projectId' | 'policy'>): Promise<Rules> {
    return rulesOf(this.#context, caller)
  }

  /** The allowed image that has this runtime. Throws `unsupported` with the runtimes that exist. */
  async imageOfRuntime(caller: Pick<Caller, 'projectId' | 'policy'>, runtime: string): Promise<string> {
    const config = await this.rules(caller)
    return imageOfRuntime({ config, provider: this.#context.provider }, runtime)
  }

  /** The project's usage and quotas. */
  async usage(caller: Caller) {
    const { unlimited_disks: unlimited, ...used } = await this.#context.store.sessions.usage(caller.projectId)
    const quotas = await quotasOf(this.#context, caller)
    const diskMb = used.disk_mb + unlimited * (this.#context.config.defaults.disk_limit_mb ?? 0)
    const { volumes, limit_mb: volumeMb } = await this.#context.store.volumes.usage(caller.projectId)
    return { used: { ...used, disk_mb: diskMb, volumes, volume_mb: volumeMb }, quotas }
  }

  /** Follows commands of a session that was paused when this process started. */
  async #recover(session: Session): Promise<void> {
    const caller = { projectId: session.project_id, keyId: 'daemon', scopes: [], requestId: 'resume' }
    await this.commands
      .recover(session, () => this.use.take(caller, session.id))
      .catch((error) =>
        this.#context.log.warn(
          { session: session.id, err: error },
          'cannot follow the commands of a resumed session',
        ),
      )
  }
}
