import { readdirSync } from 'node:fs'
import path from 'node:path'
import { type CallOptions, SandboxError, type SnapshotInfo } from '@sandkasten/sdk'
import { FolderDriver, isAlive, readRecord, type SandboxRecord } from '@sandkasten/sdk/folder'
import type { CreateSpec, SandboxDriver } from '@sandkasten/sdk/provider'
import { throwIfAborted } from '@sandkasten/sdk/provider'
import type { IsolatedSandbox, Isolator, IsolatorSpec, LayeredDisks } from '../isolators/isolator.ts'
import { type Draft, LayerStore, Snapshots, type TreeRights, Trees } from '../layers/index.ts'
import { Volumes } from '../volumes/volumes.ts'
import type { WriterClaim } from '../volumes/writers.ts'
import type { EngineCapabilities } from './capabilities.ts'
import { DiskLayers } from './disk-layers.ts'
import { type EngineExtra, extraOf } from './spec.ts'
import { squash } from './squash.ts'

/** Above this many layers a stack is merged into one, in the background; above `MOST_LAYERS` before anything else is stacked on it. */
const MANY_LAYERS = 20
const MOST_LAYERS = 200

/**
 * Snapshots and forks of sandboxes whose disks are layers. What a sandbox stands on is in its record, what a snapshot stands on in its own; the
 * layers' store knows neither and asks (`#inUse`).
 */
export abstract class LayeredDriver extends FolderDriver<EngineCapabilities> {
  readonly #trees: Trees
  readonly #squashing = new Map<string, Promise<void>>()
  #stores: Stores | undefined

  constructor(root: string, runner: () => Promise<string>, rights?: TreeRights) {
    super(root)
    this.#trees = new Trees(runner, rights)
  }

  protected abstract isolator(): Promise<Isolator>
  protected abstract isolatedOf(record: SandboxRecord): Promise<IsolatedSandbox>
  protected abstract override plan(spec: CreateSpec): Promise<Record<string, unknown>>

  override async create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver> {
    await this.prepare()
    const { snapshotId } = spec
    const plan = await this.plan(spec)
    if (snapshotId === undefined) return this.make(spec, plan, call)
    if (spec.image !== undefined)
      throw new SandboxError('invalid_argument', '`image` and `snapshotId` are both given.', {
        hint: 'A snapshot stands on the image of its sandbox: leave image out.',
      })
    const { layers, snapshots } = this.#layered
    let snapshot = snapshots.get(snapshotId)
    const release = await layers.hold(() => {
      snapshot = snapshots.get(snapshotId)
      return snapshot.layers
    })
    try {
      const { image, workdir } = snapshot
      return await this.make(spec, { ...plan, image, workdir, layers: snapshot.layers }, call)
    } finally {
      release()
    }
  }

  override async destroy(sandboxId: string): Promise<boolean> {
    await this.prepare()
    const before = /^[a-z2-7]{16}$/.test(sandboxId) ? await readRecord(this.folderOf(sandboxId)) : undefined
    const destroyed = await super.destroy(sandboxId)
    const { layers, sealing } = before ? extraOf(before) : { layers: [], sealing: undefined }
    // The sandbox is gone, whatever becomes of its layers: who sweeps next finds them.
    if (layers.length > 0 || sealing !== undefined) await this.sweepLayers().catch(() => {})
    return destroyed
  }

  async snapshot(
    { sandboxId, incarnation }: Binding,
    name: string | undefined,
    { signal }: CallOptions,
  ): Promise<{ snapshotId: string }> {
    const taken = await this.#take({ sandboxId, incarnation })
    const { layers, snapshots } = this.#layered
    const { image, workdir } = taken.extra
    try {
      throwIfAborted(signal, 'The snapshot')
      await layers.sync()
      const facts = {
        ...(name === undefined ? {} : { name }),
        sandboxId,
        layers: taken.layers,
        image,
        workdir,
      }
      const snapshotId = await snapshots.add(facts)
      await taken.done()
      await this.#keepShallow(taken)
      return { snapshotId }
    } catch (error) {
      await this.#giveBack(taken)
      throw error
    }
  }

  /** Running copies: of one moment, all of them. */
  async fork(binding: Binding, count: number, call: CallOptions): Promise<Array<SandboxDriver | Error>> {
    const taken = await this.#take(binding)
    try {
      const { labels, envVars, label, lifetimeMs } = taken.record
      const spec = {
        labels,
        envVars,
        deferReady: false,
        ...(label === undefined ? {} : { label }),
        ...(lifetimeMs === undefined ? {} : { lifetimeMs }),
      }
      const copies = (layers: readonly string[]) =>
        Promise.allSettled(
          Array.from({ length: count }, () => this.make(spec, { ...taken.extra, layers }, call)),
        )
      // They run, so nobody could merge their stack later; and a fork of a fork of a fork would not fit one day.
      const deep = taken.layers.length > MANY_LAYERS
      const forks = deep ? await this.#squash(taken, (layer) => copies([layer])) : await copies(taken.layers)
      await taken.done()
      const made = forks.map((fork) => (fork.status === 'fulfilled' ? fork.value : (fork.reason as Error)))
      if (deep || made.some((fork) => fork instanceof Error)) await this.#giveBack(taken)
      return made
    } catch (error) {
      await this.#giveBack(taken)
      throw error
    }
  }

  async listSnapshots(): Promise<SnapshotInfo[]> {
    await this.prepare()
    return this.#layered.snapshots.list()
  }

  async deleteSnapshot(snapshotId: string): Promise<boolean> {
    await this.prepare()
    const deleted = await this.#layered.snapshots.delete(snapshotId)
    if (deleted) await this.sweepLayers()
    return deleted
  }

  /** Removes the layers that nobody needs, and returns which. */
  async sweepLayers(): Promise<string[]> {
    await this.prepare()
    return this.#layered.layers.sweep(async () => this.#inUse())
  }

  override async sweep(): Promise<string[]> {
    const removed = await super.sweep()
    await (await this.isolator()).sweep?.(path.join(this.root, 'sandboxes'))
    await this.#layered.snapshots.tidy()
    await this.volumes.sweep()
    await this.sweepLayers()
    return removed
  }

  /** Resolves when what is done in the background has been done. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#squashing.values())
  }

  protected override async mend(folder: string, record: SandboxRecord): Promise<SandboxRecord> {
    if (extraOf(record).sealing === undefined) return record
    const upper = (await this.isolator()).disks?.upperOf(this.spec(folder, record))
    return upper && 'folder' in upper ? this.#layered.disk.mend(record, upper.folder) : record
  }

  /** What the isolator is told. Refuses when a layer is gone. */
  protected spec(folder: string, record: SandboxRecord): IsolatorSpec {
    const { layers, volumes, sealing: _, ...extra } = extraOf(record)
    const place = { sandboxId: record.sandboxId, folder: path.join(folder, 'disk') }
    const mounted = volumes.map(({ name, target, readOnly }) => ({
      source: this.volumes.dataOf(name),
      target,
      readOnly: readOnly ?? false,
    }))
    return {
      ...extra,
      ...place,
      env: {},
      mounts: [...extra.mounts, ...mounted],
      layers: layers.map((id) => this.#layered.layers.treeOf(id)),
    }
  }

  /** Before it is brought to life: is all there that it stands on, and may it write where it wants to? */
  protected async claimDisks(record: SandboxRecord): Promise<void> {
    const { layers, volumes } = extraOf(record)
    this.#layered.layers.need(layers)
    if (volumes.length > 0) await this.volumes.need(volumes.map(({ name }) => name))
    for (const { name, readOnly } of volumes)
      if (!readOnly) await this.volumes.writers.take(name, record.sandboxId, record.incarnation)
  }

  /** After its end. */
  protected async giveUpVolumes(record: SandboxRecord): Promise<void> {
    for (const { name, readOnly } of extraOf(record).volumes)
      if (!readOnly) await this.volumes.writers.giveUp(name, record.sandboxId)
  }

  /** Known once anything was asked of this provider, as its root. */
  get volumes(): Volumes {
    return this.#layered.volumes
  }

  /** Resolves when they may be used. */
  async prepared(): Promise<this> {
    await this.prepare()
    return this
  }

  get #layered(): Stores {
    if (this.#stores) return this.#stores
    const layers = new LayerStore(this.root, this.#trees)
    const snapshots = new Snapshots<EngineExtra['image']>(this.root, layers)
    const volumes = new Volumes(this.root, this.#trees, {
      usersOf: async (name) => {
        const users = (await this.#records()).filter((record) =>
          extraOf(record).volumes.some((volume) => volume.name === name),
        )
        return users.map(({ sandboxId }) => sandboxId)
      },
      lives: (claim) => this.#holdsClaim(claim),
    })
    this.#stores = { layers, snapshots, volumes, disk: new DiskLayers(layers, this.#trees) }
    return this.#stores
  }

  /** While it starts, its record does not say so yet: then whoever starts it must live. */
  async #holdsClaim({ sandboxId, incarnation, by }: WriterClaim): Promise<boolean> {
    const record = await this.current(sandboxId).catch((error) => {
      if (!SandboxError.is(error, 'not_found')) throw error
    })
    if (!record) return false
    const runs = record.status === 'running' || record.status === 'paused'
    return (
      (runs && record.incarnation === incarnation) || (record.status !== 'running' && (await isAlive(by)))
    )
  }

  /** The layers that show a sandbox's disk as it is at one moment; held until `done`. */
  async #take({ sandboxId, incarnation }: Binding): Promise<Taken> {
    const disks = await this.#disks()
    const { layers, disk } = this.#layered
    // One that has died is stopped by looking.
    await this.current(sandboxId)
    let draft: Draft | undefined
    let copied = false
    try {
      const record = await this.change(sandboxId, async (record) => {
        if (record.incarnation !== incarnation) throw this.interrupted(sandboxId)
        draft = await layers.begin(extraOf(record).layers)
        const folder = this.folderOf(sandboxId)
        const upper = disks.upperOf(this.spec(folder, record))
        if (record.status !== 'stopped') {
          await disk.copyRunning(await this.isolatedOf(record), draft)
          copied = true
        } else if ('folder' in upper) return disk.sealStopped(folder, record, upper.folder, draft)
        else copied = await disk.copyStopped(upper.file, draft)
        return record
      })
      const extra = extraOf(record)
      const stack = copied && draft ? [draft.id, ...extra.layers] : extra.layers
      if (copied && draft) {
        layers.seal(draft.id)
        draft.keep()
      }
      return { record, extra, layers: stack, done: async () => draft?.done() }
    } catch (error) {
      await draft?.done()
      throw error
    }
  }

  async #disks(): Promise<LayeredDisks> {
    const { disks, name } = await this.isolator()
    if (disks) return disks
    throw new SandboxError('unsupported', `The isolator “${name}” does not keep disks as layers.`)
  }

  /** Nobody got what was taken: whoever else needs a part of it, it stays for him. */
  async #giveBack(taken: Taken): Promise<void> {
    await taken.done()
    await this.sweepLayers().catch(() => {})
  }

  async #keepShallow(taken: Taken): Promise<void> {
    const { layers: stack } = taken
    if (stack.length <= MANY_LAYERS) return
    const key = stack.join()
    const work =
      this.#squashing.get(key) ??
      this.#squash(taken, async () => {})
        // A stack that stays deep works; the next snapshot tries again.
        .catch(() => {})
        .finally(() => this.#squashing.delete(key))
    this.#squashing.set(key, work)
    if (stack.length > MOST_LAYERS) await work
  }

  async #squash<T>({ record, layers: stack }: Taken, use: (layer: string) => Promise<T>): Promise<T> {
    const disks = await this.#disks()
    const ground = disks.groundOf(this.spec(this.folderOf(record.sandboxId), record))
    const parts = { ...this.#layered, trees: this.#trees, sandboxes: this.#sandboxes }
    const used = await squash(stack, ground, parts, use)
    await this.sweepLayers()
    return used
  }

  readonly #sandboxes = {
    all: () => this.#records(),
    change: (sandboxId: string, change: (record: SandboxRecord) => SandboxRecord) =>
      this.change(sandboxId, change).then(() => {}),
  }

  async #records(): Promise<SandboxRecord[]> {
    const ids = readdirSync(path.join(this.root, 'sandboxes')).filter((name) => /^[a-z2-7]{16}$/.test(name))
    const records = await Promise.all(ids.map((id) => readRecord(this.folderOf(id))))
    return records.filter((record) => record !== undefined)
  }

  async #inUse(): Promise<Set<string>> {
    const ids = new Set<string>()
    for (const { layers } of this.#layered.snapshots.all()) for (const id of layers) ids.add(id)
    for (const record of await this.#records()) {
      const { layers, sealing } = extraOf(record)
      for (const id of layers) ids.add(id)
      if (sealing !== undefined) ids.add(sealing)
    }
    return ids
  }
}

/** Which sandbox, and which of its lives, a handle knows. */
export interface Binding {
  readonly sandboxId: string
  readonly incarnation: string
}

interface Stores {
  readonly layers: LayerStore
  readonly snapshots: Snapshots<EngineExtra['image']>
  readonly volumes: Volumes
  readonly disk: DiskLayers
}

interface Taken {
  readonly record: SandboxRecord
  readonly extra: EngineExtra
  readonly layers: readonly string[]
  done(): Promise<void>
}
