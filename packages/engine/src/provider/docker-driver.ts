import path from 'node:path'
import { type CallOptions, type CreateOption, SandboxError, type SnapshotInfo } from '@sandkasten/sdk'
import type { SandboxRecord } from '@sandkasten/sdk/folder'
import { type CreateSpec, randomId, type SandboxDriver, throwIfAborted } from '@sandkasten/sdk/provider'
import type { Image } from '../isolators/isolator.ts'
import { DockerSnapshots } from './docker-snapshots.ts'
import { type Binding, EngineDriver } from './driver.ts'
import { type EngineExtra, extraOf, planOf } from './spec.ts'

/** Sandboxes of a Docker daemon: images are the daemon's, and so are snapshots. */
export class DockerDriver extends EngineDriver {
  override readonly createOptions: readonly CreateOption[] =
    'snapshot' in this.capabilities ? [...this.engineOptions, 'snapshotId'] : this.engineOptions
  /** What a fork has of its sandbox, which the options of `create` do not say: limits, mounts, network. */
  readonly #forking = new Map<string, EngineExtra>()

  get #snapshots(): DockerSnapshots {
    return new DockerSnapshots(this.root)
  }

  override async snapshot(
    binding: Binding,
    name: string | undefined,
    call: CallOptions,
  ): Promise<{ snapshotId: string }> {
    const { snapshotId } = await this.#take(binding, name, false, call)
    return { snapshotId }
  }

  /** By way of a snapshot that nobody else sees. */
  override async fork(
    binding: Binding,
    count: number,
    call: CallOptions,
  ): Promise<Array<SandboxDriver | Error>> {
    const taken = await this.#take(binding, undefined, true, call)
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
      await this.#sweep()
    }
  }

  async listSnapshots(): Promise<SnapshotInfo[]> {
    await this.prepare()
    return this.#snapshots.list()
  }

  async deleteSnapshot(snapshotId: string): Promise<boolean> {
    await this.prepare()
    const record = this.#snapshots.find(snapshotId)
    if (!record || record.hidden) return false
    await this.#snapshots.write({ ...record, hidden: true })
    await this.#sweep()
    return true
  }

  protected override plan(spec: CreateSpec): Record<string, unknown> {
    const { snapshotId, image = this.defaults.image, ...rest } = spec
    const plan = planOf({ ...rest, image: 'host' }, this.defaults)
    if (snapshotId === undefined) return { ...plan, image: imageOf(image) }
    if (spec.image !== undefined)
      throw new SandboxError('invalid_argument', '`image` and `snapshotId` are both given.', {
        hint: 'A snapshot stands on the image of its sandbox: leave image out.',
      })
    const forked = this.#forking.get(snapshotId)
    const { of, hidden } = this.#snapshots.get(snapshotId)
    if (hidden && !forked)
      throw new SandboxError('not_found', `There is no snapshot ${snapshotId}.`, {
        hint: 'See provider.listSnapshots().',
      })
    return { ...plan, ...forked, image: { snapshot: snapshotId, of } }
  }

  protected override async release(folder: string, record: SandboxRecord): Promise<void> {
    await super.release(folder, record)
    const { image } = extraOf(record)
    if (typeof image === 'object' && 'snapshot' in image) await this.#sweep()
  }

  async #take(
    { sandboxId, incarnation }: Binding,
    name: string | undefined,
    hidden: boolean,
    { signal }: CallOptions,
  ): Promise<{ snapshotId: string; record: SandboxRecord }> {
    const snapshotId = randomId()
    if ((await this.current(sandboxId)).status !== 'stopped') await this.check(sandboxId, incarnation)
    const isolator = await this.isolator()
    // With the lock: nobody stops or destroys it meanwhile.
    const record = await this.change(sandboxId, async (record) => {
      const image = extraOf(record).image
      const of: Image = typeof image === 'object' && 'snapshot' in image ? image.of : image
      const place = { sandboxId, folder: path.join(this.folderOf(sandboxId), 'disk') }
      const facts = { snapshotId, sandboxId, createdAt: Date.now(), of }
      // Known before it exists, so that whatever happens in between is cleaned up.
      await this.#snapshots.write({ ...facts, hidden: true })
      throwIfAborted(signal, 'The snapshot')
      const size = await isolator.snapshot!(place, snapshotId)
      await this.#snapshots.write({ ...facts, ...size, ...(name === undefined ? {} : { name }), hidden })
      return record
    })
    return { snapshotId, record }
  }

  /** Removes the images of hidden snapshots, as far as no sandbox stands on them. */
  async #sweep(): Promise<void> {
    const isolator = await this.isolator()
    for (const { snapshotId, hidden } of this.#snapshots.all()) {
      if (!hidden || this.#forking.has(snapshotId)) continue
      const outcome = await isolator.removeSnapshot!(snapshotId)
      if (outcome !== 'in-use') this.#snapshots.forget(snapshotId)
    }
  }
}

/** Every other name is the daemon's to know. */
function imageOf(image: string): Image {
  if (image === 'host') return 'host'
  return path.isAbsolute(image) ? { rootfs: image } : { reference: image }
}
