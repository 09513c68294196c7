import path from 'node:path'
import { type CallOptions, type CreateOption, SandboxError, type SnapshotInfo } from '@sandkasten/sdk'
import { identityOf, isAlive, type SandboxRecord } from '@sandkasten/sdk/internal'
import { type CreateSpec, randomId, type SandboxDriver, throwIfAborted } from '@sandkasten/sdk/provider'
import { runtimeRecipe } from '../images/index.ts'
import type { Image } from '../isolators/isolator.ts'
import { DockerSnapshots } from './docker-snapshots.ts'
import { EngineDriver } from './driver.ts'
import type { Binding } from './layered-driver.ts'
import { type EngineExtra, extraOf, planOf } from './spec.ts'

/** Sandboxes of a Docker daemon: images are the daemon's, and so are disks and snapshots. Layers and volumes of ours are not to be had. */
export class DockerDriver extends EngineDriver {
  override readonly createOptions: readonly CreateOption[] = this.engineOptions.filter(
    (option) => option !== 'snapshotId' || 'snapshot' in this.capabilities,
  )
  /** What a fork has of its sandbox, which the options of `create` do not say: limits, mounts, network. */
  readonly #forking = new Map<string, EngineExtra>()

  get #snapshots(): DockerSnapshots {
    return new DockerSnapshots(this.root)
  }

  override async create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver> {
    await this.prepare()
    return this.make(spec, await this.plan(spec), call)
  }

  override async snapshot(
    binding: Binding,
    name: string | undefined,
    call: CallOptions,
  ): Promise<{ snapshotId: string }> {
    const { snapshotId } = await this.#take(binding, name, call)
    await this.#snapshots.show(snapshotId)
    return { snapshotId }
  }

  /** By way of a snapshot that nobody else sees. */
  override async fork(
    binding: Binding,
    count: number,
    call: CallOptions,
  ): Promise<Array<SandboxDriver | Error>> {
    const taken = await this.#take(binding, undefined, call)
    const { labels, envVars, label, lifetimeMs } = taken.record
    const spec = {
      labels,
      envVars,
      snapshotId: taken.snapshotId,
      deferReady: false,
      ...(label === undefined ? {} : { label }),
      ...(lifetimeMs === undefined ? {} : { lifetimeMs }),
    }
    this.#forking.set(taken.snapshotId, extraOf(taken.record))
    try {
      const forks = await Promise.allSettled(Array.from({ length: count }, () => this.create(spec, call)))
      return forks.map((fork) => (fork.status === 'fulfilled' ? fork.value : (fork.reason as Error)))
    } finally {
      this.#forking.delete(taken.snapshotId)
      await this.#snapshots.hide(taken.snapshotId)
      await this.#sweepSnapshots()
    }
  }

  override async listSnapshots(): Promise<SnapshotInfo[]> {
    await this.prepare()
    return this.#snapshots.list()
  }

  override async deleteSnapshot(snapshotId: string): Promise<boolean> {
    await this.prepare()
    const record = this.#snapshots.find(snapshotId)
    if (!record || record.hidden) return false
    await this.#snapshots.hide(snapshotId)
    await this.#sweepSnapshots()
    return true
  }

  override async sweep(): Promise<string[]> {
    const removed = await super.sweep()
    await this.#sweepSnapshots()
    return removed
  }

  protected override async plan(spec: CreateSpec): Promise<Record<string, unknown>> {
    const { snapshotId, image = this.defaults.image, ...rest } = spec
    // What is said of the image is the daemon's to understand; of the rest, what is wrong is said before what is not to be had.
    const plan = await planOf({ ...rest, image: 'host' }, this.defaults, this.findImage)
    if (plan.limits.diskBytes !== undefined)
      throw new SandboxError('unsupported', 'The isolator “docker” does not limit the disk.', {
        hint: {
          sdk: 'Leave resources.diskMb out, or use the isolator “oci”.',
          http: 'Leave limits.disk_mb out, or use a daemon with the isolator “oci”.',
          cli: 'Leave --disk out, or use the isolator “oci”.',
        },
      })
    if (plan.volumes.length > 0)
      throw new SandboxError('unsupported', 'The isolator “docker” has no volumes.', {
        hint: 'Leave providerOptions.volumes out, or use the isolator “oci”.',
      })
    if (snapshotId === undefined) return { ...plan, image: await this.#imageOf(image) }
    if (spec.image !== undefined)
      throw new SandboxError('invalid_argument', '`image` and `snapshotId` are both given.', {
        hint: 'A snapshot stands on the image of its sandbox: leave image out.',
      })
    const forked = this.#forking.get(snapshotId)
    const { of, hidden } = this.#snapshots.get(snapshotId)
    if (hidden && !forked)
      throw new SandboxError('not_found', `There is no snapshot ${snapshotId}.`, {
        hint: {
          sdk: 'See provider.listSnapshots().',
          http: 'See GET /v1/snapshots.',
          cli: 'See sandkasten snapshot list.',
        },
      })
    return { ...plan, ...forked, image: { snapshot: snapshotId, of } }
  }

  protected override async release(folder: string, record: SandboxRecord): Promise<void> {
    await super.release(folder, record)
    const { image } = extraOf(record)
    if (typeof image === 'object' && 'snapshot' in image) await this.#sweepSnapshots()
  }

  /** Names are the daemon's to know. One of our recipes that it does not have is `host`. */
  async #imageOf(image: string): Promise<Image> {
    if (image === 'host') return 'host'
    if (path.isAbsolute(image)) return { rootfs: image }
    const recipe = runtimeRecipe(image)
    if (recipe === undefined || (await (await this.isolator()).hasImage?.(image)) !== false)
      return { reference: image }
    this.standIns.tell(image, `docker build -t ${image} images/${recipe}`)
    return 'host'
  }

  async #take(
    { sandboxId, incarnation }: Binding,
    name: string | undefined,
    { signal }: CallOptions,
  ): Promise<{ snapshotId: string; record: SandboxRecord }> {
    const snapshotId = randomId()
    if ((await this.current(sandboxId)).status !== 'stopped') await this.check(sandboxId, incarnation)
    const isolator = await this.isolator()
    // With the lock: nobody stops or destroys it meanwhile.
    const taking = this.change(sandboxId, async (record) => {
      const image = extraOf(record).image
      const of: Image = typeof image === 'object' && 'snapshot' in image ? image.of : image
      const place = { sandboxId, folder: path.join(this.folderOf(sandboxId), 'disk') }
      const facts = { snapshotId, sandboxId, createdAt: Date.now(), of }
      // Known before it exists, so that whatever happens in between is cleaned up.
      const by = await identityOf(process.pid)
      await this.#snapshots.write({ ...facts, by, hidden: true })
      throwIfAborted(signal, 'The snapshot')
      const size = await isolator.snapshot!(place, snapshotId)
      const named = name === undefined ? {} : { name }
      await this.#snapshots.write({ ...facts, ...size, ...named, by, hidden: true })
      return record
    })
    try {
      return { snapshotId, record: await taking }
    } catch (error) {
      if (this.#snapshots.find(snapshotId)) await this.#snapshots.hide(snapshotId)
      // Whoever sweeps next finds what is left of it.
      await this.#sweepSnapshots().catch(() => {})
      throw error
    }
  }

  /** Removes the images of hidden snapshots, as far as no sandbox stands on them and nobody is about to make one of them. */
  async #sweepSnapshots(): Promise<void> {
    const isolator = await this.isolator()
    for (const { snapshotId, hidden, by } of this.#snapshots.all()) {
      if (!hidden || (by && (await isAlive(by)))) continue
      const outcome = await isolator.removeSnapshot!(snapshotId)
      if (outcome !== 'in-use') this.#snapshots.forget(snapshotId)
    }
  }
}
