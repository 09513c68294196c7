import { readdirSync } from 'node:fs'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { FolderDriver, isAlive, readRecord, type SandboxRecord } from '@sandkasten/sdk/internal'
import type { Isolator, IsolatorSpec } from '../isolators/isolator.ts'
import { LayerStore, Snapshots, type TreeRights, Trees } from '../layers/index.ts'
import { Volumes } from '../volumes/volumes.ts'
import type { WriterClaim } from '../volumes/writers.ts'
import type { EngineCapabilities } from './capabilities.ts'
import { DiskLayers } from './disk-layers.ts'
import { joined } from './joined.ts'
import { type EngineExtra, extraOf } from './spec.ts'

/**
 * Sandboxes whose disks stand on layers, with volumes beside them. What a sandbox stands on is in its record, what a snapshot stands on in its own; the
 * stores of layers and of volumes know neither, and ask.
 */
export abstract class DiskDriver extends FolderDriver<EngineCapabilities> {
  protected readonly trees: Trees
  #stores: Stores | undefined

  constructor(root: string, runner: () => Promise<string>, rights?: TreeRights) {
    super(root)
    this.trees = new Trees(runner, rights)
  }

  protected abstract isolator(): Promise<Isolator>

  /** Removes the layers that nobody needs, and returns which. Every sandbox that is destroyed asks for it: many at once share one look at all records. */
  readonly sweepLayers = joined(async (): Promise<string[]> => {
    await this.prepare()
    return this.stores.layers.sweep(async () => this.#inUse())
  })

  override async sweep(): Promise<string[]> {
    const removed = await super.sweep()
    await (await this.isolator()).sweep?.(path.join(this.root, 'sandboxes'))
    await this.stores.snapshots.tidy()
    await this.volumes.sweep()
    await this.sweepLayers()
    return removed
  }

  protected override async mend(folder: string, record: SandboxRecord): Promise<SandboxRecord> {
    if (extraOf(record).sealing === undefined) return record
    const upper = (await this.isolator()).disks?.upperOf(this.spec(folder, record))
    return upper && 'folder' in upper ? this.stores.disk.mend(record, upper.folder) : record
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
      layers: layers.map((id) => this.stores.layers.treeOf(id)),
    }
  }

  /** Before it is brought to life: is all there that it stands on, and may it write where it wants to? */
  protected async claimDisks(record: SandboxRecord): Promise<void> {
    const { layers, volumes } = extraOf(record)
    // What one who was killed while he swept has taken away is put back by the next one who sweeps.
    if (this.stores.layers.lost(layers) !== undefined) await this.sweepLayers().catch(() => {})
    this.stores.layers.need(layers)
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
    return this.stores.volumes
  }

  /** Resolves when they may be used. */
  async prepared(): Promise<this> {
    await this.prepare()
    return this
  }

  protected get stores(): Stores {
    if (this.#stores) return this.#stores
    const layers = new LayerStore(this.root, this.trees)
    const snapshots = new Snapshots<EngineExtra['image']>(this.root, layers)
    const volumes = new Volumes(this.root, this.trees, {
      usersOf: async (name) => {
        const users = (await this.records()).filter((record) =>
          extraOf(record).volumes.some((volume) => volume.name === name),
        )
        return users.map(({ sandboxId }) => sandboxId)
      },
      lives: (claim) => this.#holdsClaim(claim),
    })
    this.#stores = { layers, snapshots, volumes, disk: new DiskLayers(layers, this.trees) }
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

  protected async records(): Promise<SandboxRecord[]> {
    const ids = readdirSync(path.join(this.root, 'sandboxes')).filter((name) => /^[a-z2-7]{16}$/.test(name))
    const records = await Promise.all(ids.map((id) => readRecord(this.folderOf(id))))
    return records.filter((record) => record !== undefined)
  }

  async #inUse(): Promise<Set<string>> {
    const ids = new Set<string>()
    for (const { layers } of this.stores.snapshots.all()) for (const id of layers) ids.add(id)
    for (const record of await this.records()) {
      const { layers, sealing } = extraOf(record)
      for (const id of layers) ids.add(id)
      if (sealing !== undefined) ids.add(sealing)
    }
    return ids
  }
}

export interface Stores {
  readonly layers: LayerStore
  readonly snapshots: Snapshots<EngineExtra['image']>
  readonly volumes: Volumes
  readonly disk: DiskLayers
}
