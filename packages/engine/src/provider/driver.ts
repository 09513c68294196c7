import { readdirSync } from 'node:fs'
import path from 'node:path'
import type { Duplex } from 'node:stream'
import type { RunnerClient, TaskOutput } from '@sandkasten/runner-client'
import {
  type CallOptions,
  type CreateOption,
  type Isolation,
  SandboxError,
  type SandboxInfo,
  type SnapshotInfo,
} from '@sandkasten/sdk'
import type { PortForwards } from '@sandkasten/sdk/internal'
import { FolderDriver, isDamaged, readRecord, type SandboxRecord } from '@sandkasten/sdk/internal'
import type { CreateSpec, NormalNetwork, SandboxDriver } from '@sandkasten/sdk/provider'
import type { Egress, EgressSandbox } from '../egress/egress.ts'
import type { EgressEventsOptions } from '../egress/events.ts'
import type { EgressEvent, EgressStats } from '../egress/wire.ts'
import type { IsolatedSandbox, Isolator, ProbeResult, SandboxStats } from '../isolators/isolator.ts'
import type { Volumes } from '../volumes/volumes.ts'
import { accessOf } from './access.ts'
import type { EngineCapabilities } from './capabilities.ts'
import type { Binding, Disks, Sandboxes } from './disks/disks.ts'
import { endsSoon, type LiveSandbox, LiveSandboxes } from './live-sandboxes.ts'
import { SandboxNetworks } from './networks.ts'
import type { RuntimeImages } from './runtime-images.ts'
import { EngineSandbox } from './sandbox.ts'
import { type EngineDefaults, extraOf } from './spec.ts'

const options: readonly CreateOption[] = [
  'name',
  'label',
  'labels',
  'envVars',
  'lifetimeMs',
  'snapshotId',
  'image',
  'runtime',
  'ports',
  'resources',
  'user',
  'network',
  'repo',
  'gitToken',
  'providerOptions',
]

export interface EngineDriverOptions {
  readonly root: string
  readonly isolator: () => Promise<Isolator>
  /** Closes the isolator if it exists. */
  readonly closeIsolator: () => Promise<void>
  readonly disks: (sandboxes: Sandboxes) => Disks
  readonly defaults: EngineDefaults
  readonly capabilities: EngineCapabilities
  readonly isolation?: Isolation
  /** Commands of a sandbox can be its root. */
  readonly hasRootUser?: boolean
  readonly runtimes: RuntimeImages
  /** Absent where policies cannot be enforced. */
  readonly egress?: ((running: () => Promise<EgressSandbox[]>, root: () => string) => Egress) | undefined
}

/**
 * The sandboxes of an isolator. `FolderDriver` keeps the records, `Disks` the disks, `LiveSandboxes` the connections;
 * this class puts them together.
 */
export class EngineDriver extends FolderDriver<EngineCapabilities> {
  readonly name = 'engine'
  readonly isolation: Isolation
  readonly capabilities: EngineCapabilities
  readonly createOptions: readonly CreateOption[]
  /** Programs are frozen while the disk is copied, and continue. */
  readonly snapshotInterrupts = false
  readonly defaults: EngineDefaults
  readonly runtimes: RuntimeImages
  readonly #isolator: () => Promise<Isolator>
  readonly #closeIsolator: () => Promise<void>
  readonly #disks: Disks
  readonly #networks: SandboxNetworks
  readonly #live = new LiveSandboxes((sandboxId) => {
    this.#networks.ended(sandboxId).catch(() => {})
    this.info(sandboxId).then(
      (info) => this.onEnded(info),
      () => {},
    )
  })
  /** Called when a sandbox that this process started, or watches, ends by itself. */
  onEnded: (info: SandboxInfo) => void = () => {}

  constructor({ root, isolator, closeIsolator, disks, ...rest }: EngineDriverOptions) {
    super(root)
    this.#isolator = isolator
    this.#closeIsolator = closeIsolator
    this.defaults = rest.defaults
    this.runtimes = rest.runtimes
    this.capabilities = rest.capabilities
    this.isolation = rest.isolation ?? 'container'
    const missing: CreateOption[] = [
      ...('snapshot' in this.capabilities ? [] : (['snapshotId'] as const)),
      ...(rest.hasRootUser ? [] : (['user'] as const)),
    ]
    this.createOptions = options.filter((option) => !missing.includes(option))
    this.#disks = disks(this.#sandboxes())
    const egress = rest.egress?.(
      () => this.#networks.running(),
      () => this.root,
    )
    this.#networks = new SandboxNetworks(egress, this.#sandboxes())
  }

  override async create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver> {
    await this.prepare()
    const { runtime, ...rest } = spec
    if (runtime === undefined) return this.#disks.create(spec, call)
    return this.#disks.create({ ...rest, image: await this.runtimes.imageFor(runtime) }, call)
  }

  override async destroy(sandboxId: string): Promise<boolean> {
    await this.prepare()
    const record = /^[a-z2-7]{16}$/.test(sandboxId)
      ? await readRecord(this.folderOf(sandboxId)).catch((error) => {
          if (!isDamaged(error)) throw error
        })
      : undefined
    const destroyed = await super.destroy(sandboxId)
    // The sandbox is gone even if its layers cannot be removed now; the next sweep removes them.
    if (record) await this.#disks.removed(record).catch(() => {})
    return destroyed
  }

  override async sweep(): Promise<string[]> {
    const removed = await super.sweep()
    await (await this.#isolator()).sweep?.(path.join(this.root, 'sandboxes'))
    await this.#disks.sweep()
    return removed
  }

  override async health(): Promise<boolean> {
    return (await super.health()) && (await this.probe()).ok
  }

  async probe(): Promise<ProbeResult> {
    return (await this.#isolator()).probe()
  }

  override async info(sandboxId: string): Promise<SandboxInfo> {
    const info = await super.info(sandboxId)
    // The Docker daemon may not answer. All other fields are known without it.
    const weaker = await this.#isolator()
      .then((isolator) => isolator.weaker?.())
      .catch(() => undefined)
    return weaker === undefined || weaker.length === 0 ? info : { ...info, weaker: [...weaker] }
  }

  snapshot(binding: Binding, name: string | undefined, call: CallOptions): Promise<{ snapshotId: string }> {
    return this.#disks.snapshot(binding, name, call)
  }

  fork(binding: Binding, count: number, call: CallOptions): Promise<Array<SandboxDriver | Error>> {
    return this.#disks.fork(binding, count, call)
  }

  async listSnapshots(): Promise<SnapshotInfo[]> {
    await this.prepare()
    return this.#disks.listSnapshots()
  }

  async deleteSnapshot(snapshotId: string): Promise<boolean> {
    await this.prepare()
    return this.#disks.deleteSnapshot(snapshotId)
  }

  /** Undefined where disks have no volumes. */
  async volumes(): Promise<Volumes | undefined> {
    await this.prepare()
    return this.#disks.volumes
  }

  /** The connection to the sandbox's runner, which all handles of this provider share. */
  async client(record: SandboxRecord): Promise<RunnerClient> {
    await this.#networks.serve(record)
    return this.#live.client(this.#liveOf(record))
  }

  /** The name below `READ_ONLY_FILES` in the sandbox. Undefined: the file has to be copied. */
  async shareFile(sandboxId: string, file: string): Promise<string | undefined> {
    return this.#disks.readOnlyFiles?.share(file, this.folderOf(sandboxId))
  }

  forwards(record: SandboxRecord): PortForwards {
    return this.#liveOf(record).forwards
  }

  /** A byte stream to a port of the sandbox. */
  async dial(sandboxId: string, port: number): Promise<Duplex> {
    await this.prepare()
    const record = await this.current(sandboxId)
    if (record.status !== 'running')
      throw new SandboxError('not_running', `The sandbox ${sandboxId} is ${record.status}.`, { sandboxId })
    return this.#liveOf(record).dialer.dial(port)
  }

  /** Streams into the stdin of its processes, by process id; all handles share them. */
  writers(sandboxId: string): Map<string, TaskOutput> {
    return this.#live.get(sandboxId)?.writers ?? new Map()
  }

  /** How often the kernel has killed a process of the sandbox for lack of memory. */
  async oomKills(record: SandboxRecord): Promise<number | undefined> {
    return (await this.#liveOf(record).isolated).oomKills()
  }

  /** Whether this incarnation has ended, or ends within a second. */
  async hasEnded(sandboxId: string, incarnation: string): Promise<boolean> {
    const live = this.#live.get(sandboxId)
    if (live?.incarnation === incarnation) return endsSoon(live)
    const record = await this.current(sandboxId).catch(() => undefined)
    return record?.incarnation !== incarnation || record.status === 'stopped'
  }

  /** Makes `onEnded` learn of the end of a sandbox that another process started. */
  async watch(sandboxId: string): Promise<void> {
    await this.prepare()
    const record = await this.current(sandboxId)
    if (record.status === 'running' || record.status === 'paused') await this.#liveOf(record).isolated
  }

  async stats(sandboxId: string): Promise<SandboxStats> {
    await this.prepare()
    const record = await this.current(sandboxId)
    if (record.status === 'stopped') await this.check(sandboxId, record.incarnation)
    return (await this.#liveOf(record).isolated).stats()
  }

  /**
   * Runs under the lock, because a copy of the disk may be in progress. The record changes first: if this process dies in
   * between, `resume` still works. A frozen sandbox whose record says `running` could never be thawed.
   */
  async pause({ sandboxId }: SandboxRecord): Promise<void> {
    await this.change(sandboxId, (now) => (now.status === 'running' ? { ...now, status: 'paused' } : now))
    let failed: { error: unknown } | undefined
    await this.change(sandboxId, async (now) => {
      if (now.status !== 'paused') return now
      try {
        await (await this.#isolatedOf(now)).freeze()
        return now
      } catch (error) {
        failed = { error }
        return { ...now, status: 'running' }
      }
    })
    if (failed) throw failed.error
  }

  async resume({ sandboxId }: SandboxRecord): Promise<void> {
    const resume = async (now: SandboxRecord): Promise<SandboxRecord> => {
      if (now.status !== 'paused') return now
      await (await this.#isolatedOf(now)).thaw()
      return { ...now, status: 'running' }
    }
    await this.change(sandboxId, resume, async (now) => (await this.#isolatedOf(now)).freeze())
  }

  /** Returns the network that is in force then. */
  setNetwork({ sandboxId }: SandboxRecord, network: NormalNetwork): Promise<NormalNetwork> {
    return this.#networks.set(sandboxId, network, (change, undo) => this.change(sandboxId, change, undo))
  }

  async egressEvents(sandboxId: string, options: EgressEventsOptions): Promise<AsyncIterable<EgressEvent>> {
    await this.prepare()
    return this.#networks.events(await this.current(sandboxId), options)
  }

  async egressStats(sandboxId: string): Promise<EgressStats> {
    await this.prepare()
    return this.#networks.stats(await this.current(sandboxId))
  }

  async refreshSecrets(): Promise<void> {
    await this.#networks.refreshSecrets()
  }

  /** Resolves when no work runs in the background. */
  async idle(): Promise<void> {
    await this.#disks.idle?.()
  }

  /** Closes connections, forwarded ports and everything that is ready for the next start. Sandboxes keep running. */
  override async close(): Promise<void> {
    await this.#live.close()
    this.#networks.close()
    await this.#disks.close?.()
    await this.#closeIsolator()
    await super.close()
  }

  protected override mend(folder: string, record: SandboxRecord): Promise<SandboxRecord> {
    return this.#disks.repair?.(folder, record) ?? super.mend(folder, record)
  }

  protected async boot(folder: string, record: SandboxRecord): Promise<void> {
    try {
      await this.#disks.claim?.(record)
      const spec = this.#disks.specOf(folder, record)
      const started = Promise.all([this.#isolator(), this.#networks.plan(record, spec)]).then(
        ([isolator, planned]) => isolator.start(planned),
      )
      await this.#live.add(record, started).isolated
      await this.#networks.admit(record).catch(async (error) => {
        await (await this.#live.take(record.sandboxId))?.kill()
        throw error
      })
    } catch (error) {
      await this.#disks.unclaim?.(record)
      throw error
    }
  }

  protected async halt(folder: string, record: SandboxRecord): Promise<void> {
    const isolated = (await this.#live.take(record.sandboxId)) ?? (await this.#attach(folder, record))
    await isolated?.kill()
    await this.#networks.ended(record.sandboxId)
    await this.#disks.unclaim?.(record)
  }

  protected override async release(folder: string, record: SandboxRecord): Promise<void> {
    await (await this.#isolator()).remove(this.#disks.specOf(folder, record))
  }

  protected override async abandon(folder: string, sandboxId: string): Promise<void> {
    const place = { sandboxId, folder: path.join(folder, 'disk') }
    const isolator = await this.#isolator()
    await (await isolator.attach(place))?.kill()
    await isolator.remove(place)
  }

  protected async lives(folder: string, record: SandboxRecord): Promise<boolean> {
    const live = this.#live.get(record.sandboxId)
    if (live?.incarnation === record.incarnation && !live.ended) return true
    return (await this.#attach(folder, record)) !== undefined
  }

  protected handle(_folder: string, record: SandboxRecord): EngineSandbox {
    const extra = extraOf(record)
    return new EngineSandbox(
      this,
      record,
      extra.workdir,
      accessOf(extra, this.createOptions.includes('user')),
      extra.network,
    )
  }

  async #attach(folder: string, record: SandboxRecord): Promise<IsolatedSandbox | undefined> {
    const spec = this.#disks.specOf(folder, record)
    return (await this.#isolator()).attach(spec)
  }

  #isolatedOf(record: SandboxRecord): Promise<IsolatedSandbox> {
    return this.#liveOf(record).isolated
  }

  #liveOf(record: SandboxRecord): LiveSandbox {
    const known = this.#live.get(record.sandboxId)
    if (known?.incarnation === record.incarnation) return known
    const attached = this.#attach(this.folderOf(record.sandboxId), record).then((isolated) => {
      if (isolated) return isolated
      throw new SandboxError('not_running', `The sandbox ${record.sandboxId} has ended.`, {
        provider: this.name,
      })
    })
    return this.#live.add(record, attached)
  }

  /** The part of this driver that disks may use. */
  #sandboxes(): Sandboxes {
    const root = () => this.root
    return {
      get root() {
        return root()
      },
      isolator: this.#isolator,
      isolatedOf: (record) => this.#isolatedOf(record),
      folderOf: (sandboxId) => this.folderOf(sandboxId),
      records: () => this.#records(),
      current: (sandboxId) => this.current(sandboxId),
      check: (sandboxId, incarnation) => this.check(sandboxId, incarnation),
      change: (sandboxId, change) => this.change(sandboxId, change),
      make: (spec, extra, call) => this.make(spec, { ...extra }, call),
      interrupted: (sandboxId) => this.interrupted(sandboxId),
    }
  }

  async #records(): Promise<SandboxRecord[]> {
    const ids = readdirSync(path.join(this.root, 'sandboxes')).filter((name) => /^[a-z2-7]{16}$/.test(name))
    const records = await Promise.all(ids.map((id) => readRecord(this.folderOf(id))))
    return records.filter((record) => record !== undefined)
  }
}
