import path from 'node:path'
import { type CallOptions, SandboxError, type SnapshotInfo } from '@sandkasten/sdk'
import { isDamaged, readRecord, type SandboxRecord } from '@sandkasten/sdk/internal'
import type { CreateSpec, SandboxDriver } from '@sandkasten/sdk/provider'
import { throwIfAborted } from '@sandkasten/sdk/provider'
import type { IsolatedSandbox, LayeredDisks } from '../isolators/isolator.ts'
import type { Draft } from '../layers/index.ts'
import { DiskDriver } from './disk-driver.ts'
import { type EngineExtra, extraOf, homeOf } from './spec.ts'
import { squash } from './squash.ts'

/** Above this many layers a stack is merged into one, in the background; above `MOST_LAYERS` before anything else is stacked on it. */
const MANY_LAYERS = 20
const MOST_LAYERS = 200

/** Snapshots and forks of sandboxes whose disks are layers. */
export abstract class LayeredDriver extends DiskDriver {
  readonly #squashing = new Map<string, Promise<void>>()
  #spread: Promise<void> | undefined

  protected abstract isolatedOf(record: SandboxRecord): Promise<IsolatedSandbox>
  protected abstract override plan(spec: CreateSpec): Promise<Record<string, unknown>>

  override async create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver> {
    const made = await this.#create(spec, call)
    // A disk that does not know of it is as it was.
    this.#spread ??= this.#spreadFolders().catch(() => {})
    return made
  }

  async #create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver> {
    await this.prepare()
    const { snapshotId } = spec
    if (snapshotId === undefined) return this.make(spec, await this.plan(spec), call)
    if (spec.image !== undefined)
      throw new SandboxError('invalid_argument', '`image` and `snapshotId` are both given.', {
        hint: 'A snapshot stands on the image of its sandbox: leave image out.',
      })
    // Whatever image is the default: the snapshot's counts.
    const plan = await this.plan({ ...spec, image: 'host' })
    const { snapshots } = this.stores
    for (;;) {
      const { image, workdir, layers } = snapshots.get(snapshotId)
      try {
        return await this.make(spec, { ...plan, image, workdir, layers, ...keptAccount(plan, workdir) }, call)
      } catch (error) {
        // Nobody held its layers for us: they may have been merged into another, or the snapshot deleted, which this says.
        if (snapshots.get(snapshotId).layers.join() === layers.join()) throw error
      }
    }
  }

  override async destroy(sandboxId: string): Promise<boolean> {
    await this.prepare()
    const before = /^[a-z2-7]{16}$/.test(sandboxId)
      ? await readRecord(this.folderOf(sandboxId)).catch((error) => {
          if (!isDamaged(error)) throw error
        })
      : undefined
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
    const { snapshots } = this.stores
    const { image, workdir } = taken.extra
    try {
      throwIfAborted(signal, 'The snapshot')
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
    return this.stores.snapshots.list()
  }

  async deleteSnapshot(snapshotId: string): Promise<boolean> {
    await this.prepare()
    const deleted = await this.stores.snapshots.delete(snapshotId)
    // It is deleted, whatever becomes of its layers.
    if (deleted) await this.sweepLayers().catch(() => {})
    return deleted
  }

  /** Resolves when what is done in the background has been done. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#squashing.values())
  }

  /** The layers that show a sandbox's disk as it is at one moment; held until `done`. */
  async #take({ sandboxId, incarnation }: Binding): Promise<Taken> {
    const disks = await this.#disks()
    const { layers, disk } = this.stores
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

  async #spreadFolders(): Promise<void> {
    const { churned = [] } = await this.isolator()
    await this.trees.spread(path.join(this.root, 'sandboxes'), ...churned)
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
    const parts = { ...this.stores, trees: this.trees, sandboxes: this.#sandboxes }
    const used = await squash(stack, ground, parts, use)
    await this.sweepLayers()
    return used
  }

  readonly #sandboxes = {
    all: () => this.records(),
    change: (sandboxId: string, change: (record: SandboxRecord) => SandboxRecord) =>
      this.change(sandboxId, change).then(() => {}),
  }
}

/** A disk whose user has another home keeps its own account. */
function keptAccount({ account }: Record<string, unknown>, workdir: string): { account?: string } {
  return typeof account === 'string' && workdir === homeOf(account) ? {} : { account: undefined }
}

/** Which sandbox, and which of its lives, a handle knows. */
export interface Binding {
  readonly sandboxId: string
  readonly incarnation: string
}

interface Taken {
  readonly record: SandboxRecord
  readonly extra: EngineExtra
  readonly layers: readonly string[]
  done(): Promise<void>
}
