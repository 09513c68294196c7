import { chmodSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { type CallOptions, SandboxError, type SnapshotInfo } from '@sandkasten/sdk'
import { type SandboxRecord, translate } from '@sandkasten/sdk/internal'
import {
  type CreateSpec,
  type NormalNetwork,
  type SandboxDriver,
  throwIfAborted,
} from '@sandkasten/sdk/provider'
import type { IsolatorSpec, LayeredDisks } from '../../isolators/isolator.ts'
import { LayerStore, Snapshots, type TreeRights, Trees } from '../../layers/index.ts'
import type { Volumes } from '../../volumes/volumes.ts'
import { ReadOnlyFiles, readOnlyFolder } from '../read-only-files.ts'
import {
  type EngineDefaults,
  type EngineExtra,
  extraOf,
  type FindImage,
  homeOf,
  networkBefore,
  planOf,
} from '../spec.ts'
import { type CapturedDisk, DiskCapture } from './capture.ts'
import { coalesce } from './coalesce.ts'
import { type Binding, type Disks, forkSpecOf, type Sandboxes, settled } from './disks.ts'
import { StackMerger } from './merge.ts'
import { refuseForkOfWriter, VolumeClaims } from './volume-claims.ts'

export interface LayerDisksOptions {
  /** The path of the runner's binary. */
  readonly runner: () => Promise<string>
  /** Runs programs with access to the files of sandboxes, for an engine without that permission. */
  readonly rights?: TreeRights | undefined
  readonly defaults: EngineDefaults
  readonly findImage: FindImage
  /** Prepare folders for the next sandboxes. */
  readonly prepareNext: boolean
}

/**
 * Disks as layers of this machine, with volumes beside them. The record of a sandbox or snapshot names its layers. The
 * stores of layers and volumes do not know these records, so this class passes them in.
 */
export class LayerDisks implements Disks {
  readonly readOnlyFiles = new ReadOnlyFiles(() => this.#sandboxes.root)
  readonly #sandboxes: Sandboxes
  readonly #options: LayerDisksOptions
  readonly #trees: Trees
  #madeStores: Stores | undefined
  #spread: Promise<void> | undefined

  constructor(sandboxes: Sandboxes, options: LayerDisksOptions) {
    this.#sandboxes = sandboxes
    this.#options = options
    this.#trees = new Trees(options.runner, options.rights)
  }

  get volumes(): Volumes {
    return this.#stores.claims.volumes
  }

  async create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver> {
    const made = await this.#create(spec, call)
    // Spreading only saves time, so a file system that does not support it is left as it is.
    if (this.#options.prepareNext) this.#spread ??= this.#spreadFolders().catch(() => {})
    return made
  }

  async #create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver> {
    const { snapshotId } = spec
    const { defaults, findImage } = this.#options
    if (snapshotId === undefined)
      return this.#sandboxes.make(spec, await planOf(spec, defaults, findImage), call)
    if (spec.image !== undefined) throw imageAndSnapshot()
    // The snapshot brings its image, so the default image does not apply.
    const plan = await planOf({ ...spec, image: 'host' }, defaults, findImage)
    const { snapshots } = this.#stores
    for (;;) {
      const { image, workdir, layers, network } = snapshots.get(snapshotId)
      const kept = { image, workdir, layers, account: keptAccount(plan, workdir) }
      const extra = { ...plan, ...kept, network: spec.network ?? network ?? plan.network }
      try {
        return await this.#sandboxes.make(spec, extra, call)
      } catch (error) {
        // No hold protects the layers. Retry if a merge has replaced them; `get` throws if the snapshot is gone.
        if (snapshots.get(snapshotId).layers.join() === layers.join()) throw error
      }
    }
  }

  specOf(folder: string, record: SandboxRecord): IsolatorSpec {
    const { layers, volumes: _, sealing: __, ...extra } = extraOf(record)
    return {
      ...extra,
      sandboxId: record.sandboxId,
      folder: path.join(folder, 'disk'),
      env: {},
      network: networkBefore(extraOf(record)),
      mounts: [...extra.mounts, ...this.#stores.claims.mountsOf(record)],
      readOnlyFiles: readOnlyFolder(folder),
      layers: layers.map((id) => this.#stores.layers.treeOf(id)),
    }
  }

  async claim(record: SandboxRecord): Promise<void> {
    const { layers } = extraOf(record)
    // An interrupted sweep may have renamed a layer that is in use; the next sweep puts it back.
    if (this.#stores.layers.lost(layers) !== undefined) await this.sweepLayers().catch(() => {})
    this.#stores.layers.need(layers)
    const folder = readOnlyFolder(this.#sandboxes.folderOf(record.sandboxId))
    try {
      mkdirSync(folder, { recursive: true })
      // Whatever this process's umask is, users of the sandbox can open the folder.
      chmodSync(folder, 0o755)
    } catch (error) {
      throw translate(error, 'Cannot create the folder for shared files')
    }
    await this.#stores.claims.claim(record)
  }

  unclaim(record: SandboxRecord): Promise<void> {
    return this.#stores.claims.unclaim(record)
  }

  async repair(folder: string, record: SandboxRecord): Promise<SandboxRecord> {
    if (extraOf(record).sealing === undefined) return record
    const upper = (await this.#sandboxes.isolator()).disks?.upperOf(this.specOf(folder, record))
    return upper && 'folder' in upper ? this.#stores.capture.repair(record, upper.folder) : record
  }

  async removed(record: SandboxRecord): Promise<void> {
    const { layers, sealing } = extraOf(record)
    if (layers.length > 0 || sealing !== undefined) await this.sweepLayers()
  }

  async snapshot(
    binding: Binding,
    name: string | undefined,
    { signal }: CallOptions,
  ): Promise<{ snapshotId: string }> {
    const captured = await this.#capture(binding)
    const { snapshots, merger } = this.#stores
    const { layers, extra } = captured
    try {
      throwIfAborted(signal, 'The snapshot')
      const { image, workdir } = extra
      const facts = { name, sandboxId: binding.sandboxId, layers, image, workdir, ...policyOf(extra) }
      const snapshotId = await snapshots.add(facts)
      await captured.done()
      await merger.keepShallow(layers, () => this.#merge(captured, async () => {}))
      return { snapshotId }
    } catch (error) {
      await this.#discard(captured)
      throw error
    }
  }

  async fork(binding: Binding, count: number, call: CallOptions): Promise<Array<SandboxDriver | Error>> {
    // A stopped sandbox can be copied, too. The capture checks the incarnation.
    refuseForkOfWriter(await this.#sandboxes.current(binding.sandboxId))
    const captured = await this.#capture(binding)
    try {
      const spec = forkSpecOf(captured.record)
      const copies = (layers: readonly string[]) =>
        settled(
          Array.from({ length: count }, () =>
            this.#sandboxes.make(spec, { ...captured.extra, layers }, call),
          ),
        )
      // Forks run, so their stack cannot be merged later, and a chain of forks would become too deep to mount.
      const deep = this.#stores.merger.isDeep(captured.layers)
      const forks = deep
        ? await this.#merge(captured, (layer) => copies([layer]))
        : await copies(captured.layers)
      await captured.done()
      if (deep || forks.some((fork) => fork instanceof Error)) await this.#discard(captured)
      return forks
    } catch (error) {
      await this.#discard(captured)
      throw error
    }
  }

  async listSnapshots(): Promise<SnapshotInfo[]> {
    return this.#stores.snapshots.list()
  }

  async deleteSnapshot(snapshotId: string): Promise<boolean> {
    const deleted = await this.#stores.snapshots.delete(snapshotId)
    // The snapshot is deleted even if its layers cannot be removed now; the next sweep removes them.
    if (deleted) await this.sweepLayers().catch(() => {})
    return deleted
  }

  /** Removes layers that no record names and no process holds. Concurrent calls share one reading of all records. */
  readonly sweepLayers = coalesce(() => this.#stores.layers.sweep(() => this.#layersInUse()))

  async sweep(): Promise<void> {
    await this.#stores.snapshots.removePartials()
    await this.volumes.sweep()
    await this.readOnlyFiles.sweep()
    await this.sweepLayers()
  }

  async idle(): Promise<void> {
    await this.#madeStores?.merger.idle()
  }

  close(): Promise<void> {
    return this.#trees.close()
  }

  async #capture(binding: Binding): Promise<CapturedDisk> {
    const disks = await this.#layered()
    return this.#stores.capture.capture(binding, this.#sandboxes, (record) =>
      disks.upperOf(this.specOf(this.#sandboxes.folderOf(record.sandboxId), record)),
    )
  }

  /** Releases the captured layers after a failure. Layers that are still in use stay. */
  async #discard(captured: CapturedDisk): Promise<void> {
    await captured.done()
    await this.sweepLayers().catch(() => {})
  }

  async #merge<T>({ record, layers }: CapturedDisk, use: (layer: string) => Promise<T>): Promise<T> {
    const spec = this.specOf(this.#sandboxes.folderOf(record.sandboxId), record)
    const lower = await (await this.#layered()).lowerFoldersOf(spec)
    const used = await this.#stores.merger.merge(layers, lower, use)
    await this.sweepLayers()
    return used
  }

  async #layered(): Promise<LayeredDisks> {
    const { disks, name } = await this.#sandboxes.isolator()
    if (disks) return disks
    throw new SandboxError('unsupported', `The isolator “${name}” does not keep disks as layers.`)
  }

  async #spreadFolders(): Promise<void> {
    const { runFolders = [] } = await this.#sandboxes.isolator()
    await this.#trees.spread(path.join(this.#sandboxes.root, 'sandboxes'), ...runFolders)
  }

  async #layersInUse(): Promise<Set<string>> {
    const ids = new Set(this.#stores.snapshots.all().flatMap(({ layers }) => layers))
    for (const record of await this.#sandboxes.records()) {
      const { layers, sealing } = extraOf(record)
      for (const id of layers) ids.add(id)
      if (sealing !== undefined) ids.add(sealing)
    }
    return ids
  }

  /** Created on first use, because the root's real path is not known before. */
  get #stores(): Stores {
    if (this.#madeStores) return this.#madeStores
    const [sandboxes, trees] = [this.#sandboxes, this.#trees]
    const layers = new LayerStore(sandboxes.root, trees)
    const snapshots = new Snapshots<EngineExtra['image']>(sandboxes.root, layers)
    this.#madeStores = {
      layers,
      snapshots,
      claims: new VolumeClaims(sandboxes, trees),
      capture: new DiskCapture(layers, trees),
      merger: new StackMerger({ layers, snapshots, trees, sandboxes }),
    }
    return this.#madeStores
  }
}

export function imageAndSnapshot(): SandboxError {
  return new SandboxError('invalid_argument', '`image` and `snapshotId` cannot be used together.', {
    hint: 'Omit `image`: a snapshot includes the image of its sandbox.',
  })
}

/** A snapshot keeps the policy of its sandbox, so that restoring it opens no more. */
export function policyOf({ network, closed }: EngineExtra): { network?: NormalNetwork } {
  return typeof network === 'object' || closed ? { network } : {}
}

/** A snapshot keeps its account, because its home folder belongs to that account. */
function keptAccount({ account }: EngineExtra, workdir: string): string | undefined {
  return account !== undefined && workdir === homeOf(account) ? account : undefined
}

interface Stores {
  readonly layers: LayerStore
  readonly snapshots: Snapshots<EngineExtra['image']>
  readonly claims: VolumeClaims
  readonly capture: DiskCapture
  readonly merger: StackMerger
}
