import path from 'node:path'
import { type CallOptions, SandboxError, type SnapshotInfo } from '@sandkasten/sdk'
import { identityOf, isAlive, type SandboxRecord } from '@sandkasten/sdk/internal'
import { type CreateSpec, randomId, type SandboxDriver, throwIfAborted } from '@sandkasten/sdk/provider'
import { runtimeRecipe, type StandIns } from '../../images/index.ts'
import type { Image, IsolatorSpec } from '../../isolators/isolator.ts'
import { noSnapshot } from '../../layers/snapshots.ts'
import { type EngineDefaults, type EngineExtra, extraOf, networkBefore, planOf } from '../spec.ts'
import { type Binding, type Disks, forkSpecOf, type Sandboxes, settled } from './disks.ts'
import { DockerSnapshots } from './docker-snapshots.ts'
import { imageAndSnapshot, policyOf } from './layer-disks.ts'

export interface DockerDisksOptions {
  readonly defaults: EngineDefaults
  readonly standIns: StandIns
}

/** Disks of a Docker daemon. The daemon keeps images, disks and snapshots; there are no layers and no volumes. */
export class DockerDisks implements Disks {
  readonly #sandboxes: Sandboxes
  readonly #options: DockerDisksOptions

  constructor(sandboxes: Sandboxes, options: DockerDisksOptions) {
    this.#sandboxes = sandboxes
    this.#options = options
  }

  get #snapshots(): DockerSnapshots {
    return new DockerSnapshots(this.#sandboxes.root)
  }

  async create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver> {
    return this.#sandboxes.make(spec, await this.#plan(spec), call)
  }

  specOf(folder: string, record: SandboxRecord): IsolatorSpec {
    const { volumes: _, sealing: __, ...extra } = extraOf(record)
    return {
      ...extra,
      sandboxId: record.sandboxId,
      folder: path.join(folder, 'disk'),
      env: {},
      layers: [],
      network: networkBefore(extraOf(record)),
    }
  }

  async removed(record: SandboxRecord): Promise<void> {
    const { image } = extraOf(record)
    if (typeof image === 'object' && 'snapshot' in image) await this.sweep()
  }

  async snapshot(
    binding: Binding,
    name: string | undefined,
    call: CallOptions,
  ): Promise<{ snapshotId: string }> {
    const { snapshotId } = await this.#commit(binding, name, call)
    await this.#snapshots.show(snapshotId)
    return { snapshotId }
  }

  /** Forks from a hidden snapshot. */
  async fork(binding: Binding, count: number, call: CallOptions): Promise<Array<SandboxDriver | Error>> {
    const { snapshotId, of, record } = await this.#commit(binding, undefined, call)
    const extra = { ...extraOf(record), image: { snapshot: snapshotId, of } }
    const spec = forkSpecOf(record)
    try {
      return await settled(Array.from({ length: count }, () => this.#sandboxes.make(spec, extra, call)))
    } finally {
      await this.#snapshots.hide(snapshotId)
      await this.sweep()
    }
  }

  async listSnapshots(): Promise<SnapshotInfo[]> {
    return this.#snapshots.list()
  }

  async deleteSnapshot(snapshotId: string): Promise<boolean> {
    const record = this.#snapshots.find(snapshotId)
    if (!record || record.hidden) return false
    await this.#snapshots.hide(snapshotId)
    await this.sweep()
    return true
  }

  /** Removes the images of hidden snapshots that no sandbox uses and no living process is about to use. */
  async sweep(): Promise<void> {
    const isolator = await this.#sandboxes.isolator()
    for (const { snapshotId, hidden, by } of this.#snapshots.all()) {
      if (!hidden || (by && (await isAlive(by)))) continue
      const outcome = await isolator.removeSnapshot!(snapshotId)
      if (outcome !== 'in-use') this.#snapshots.forget(snapshotId)
    }
  }

  async #plan(spec: CreateSpec): Promise<EngineExtra> {
    const { defaults } = this.#options
    const { snapshotId, image = defaults.image, ...rest } = spec
    // The daemon resolves image names, so the engine never looks one up.
    const noImages = () => {
      throw new SandboxError(
        'internal',
        'The engine looked for an image of the Docker daemon in its own store.',
      )
    }
    const plan = await planOf({ ...rest, image: 'host' }, defaults, noImages)
    if (plan.limits.diskBytes !== undefined)
      throw new SandboxError('unsupported', 'The isolator “docker” does not limit the disk.', {
        hint: {
          sdk: 'Omit resources.diskMb, or use the isolator “oci”.',
          http: 'Omit limits.disk_mb, or use a daemon with the isolator “oci”.',
          cli: 'Omit --disk, or use the isolator “oci”.',
        },
      })
    if (plan.volumes.length > 0)
      throw new SandboxError('unsupported', 'The isolator “docker” has no volumes.', {
        hint: {
          sdk: 'Omit providerOptions.volumes, or use the isolator “oci”.',
          http: 'Omit volumes, or use a daemon with the isolator “oci”.',
          cli: 'Omit --volume, or use the isolator “oci”.',
        },
      })
    if (snapshotId === undefined) return { ...plan, image: await this.#imageOf(image) }
    if (spec.image !== undefined) throw imageAndSnapshot()
    const { of, hidden, network } = this.#snapshots.get(snapshotId)
    if (hidden) throw noSnapshot(snapshotId)
    const kept = { network: spec.network ?? network ?? plan.network }
    return { ...plan, ...kept, image: { snapshot: snapshotId, of } }
  }

  /** The daemon resolves image names. The image `host` replaces a recipe of ours that the daemon does not have. */
  async #imageOf(image: string): Promise<Image> {
    if (image === 'host') return 'host'
    if (path.isAbsolute(image)) return { rootfs: image }
    const recipe = runtimeRecipe(image)
    const isolator = await this.#sandboxes.isolator()
    if (recipe === undefined || (await isolator.hasImage?.(image)) !== false) return { reference: image }
    this.#options.standIns.tell(image, `docker build -t ${image} images/${recipe}`)
    return 'host'
  }

  /** Keeps the disk as an image of the daemon, for a snapshot that is still hidden. */
  async #commit(
    { sandboxId, incarnation }: Binding,
    name: string | undefined,
    { signal }: CallOptions,
  ): Promise<{ snapshotId: string; of: Image; record: SandboxRecord }> {
    const sandboxes = this.#sandboxes
    const snapshotId = randomId()
    if ((await sandboxes.current(sandboxId)).status !== 'stopped')
      await sandboxes.check(sandboxId, incarnation)
    const isolator = await sandboxes.isolator()
    let of: Image = 'host'
    // The lock keeps other processes from stopping or destroying the sandbox.
    const committing = sandboxes.change(sandboxId, async (record) => {
      const { image } = extraOf(record)
      of = typeof image === 'object' && 'snapshot' in image ? image.of : image
      const place = { sandboxId, folder: path.join(sandboxes.folderOf(sandboxId), 'disk') }
      // The record is written before the image exists, so that a sweep finds the image after a crash.
      const by = await identityOf(process.pid)
      const policy = policyOf(extraOf(record))
      const facts = { snapshotId, sandboxId, createdAt: Date.now(), of, by, hidden: true, ...policy }
      await this.#snapshots.write(facts)
      throwIfAborted(signal, 'The snapshot')
      const size = await isolator.snapshot!(place, snapshotId)
      await this.#snapshots.write({ ...facts, ...size, name })
      return record
    })
    try {
      const record = await committing
      return { snapshotId, of, record }
    } catch (error) {
      if (this.#snapshots.find(snapshotId)) await this.#snapshots.hide(snapshotId)
      // The next sweep retries.
      await this.sweep().catch(() => {})
      throw error
    }
  }
}
