import { mkdirSync, readFileSync, unlinkSync } from 'node:fs'
import path from 'node:path'
import { SandboxError, type SnapshotInfo } from '@sandkasten/sdk'
import { errnoOf, translate } from '@sandkasten/sdk/internal'
import { type NormalNetwork, randomId } from '@sandkasten/sdk/provider'
import { namesIn } from '../read-files.ts'
import { removePartials, syncFolder, writeAtomically } from './atomic-file.ts'
import type { LayerStore } from './store.ts'

/** The record of a snapshot: the layers that show a disk, and the image below them. */
export interface SnapshotRecord<Image> {
  readonly version: 1
  readonly snapshotId: string
  readonly name?: string
  readonly sandboxId: string
  readonly createdAt: number
  /** Uppermost first. */
  readonly layers: readonly string[]
  readonly image: Image
  readonly workdir: string
  /** If the sandbox had a policy. */
  readonly network?: NormalNetwork
}

/**
 * One small file for each snapshot. A snapshot whose file exists is committed: its layers are durable before the file
 * gets its name, and the name is durable when `add` resolves.
 */
export class Snapshots<Image> {
  readonly #folder: string
  readonly #layers: LayerStore

  constructor(root: string, layers: LayerStore) {
    this.#folder = path.join(root, 'snapshots')
    this.#layers = layers
  }

  /** Resolves to its id. */
  async add(facts: Omit<SnapshotRecord<Image>, 'version' | 'snapshotId' | 'createdAt'>): Promise<string> {
    const snapshotId = randomId()
    const record = { version: 1 as const, snapshotId, createdAt: Date.now(), ...facts }
    try {
      if (mkdirSync(this.#folder, { recursive: true, mode: 0o700 })) syncFolder(path.dirname(this.#folder))
    } catch (error) {
      throw translate(error, 'Cannot create the folder for snapshots')
    }
    await this.#write(record, (file) => this.#layers.sync(facts.layers, file))
    return snapshotId
  }

  get(snapshotId: string): SnapshotRecord<Image> {
    const record = /^[a-z2-7]{16}$/.test(snapshotId) ? this.#read(snapshotId) : undefined
    if (record) return record
    throw noSnapshot(snapshotId)
  }

  all(): SnapshotRecord<Image>[] {
    const names = namesIn(this.#folder).map((name) => /^([a-z2-7]{16})\.json$/.exec(name)?.[1])
    const records = names.map((id) => (id === undefined ? undefined : this.#read(id)))
    return records.filter((record) => record !== undefined).sort((a, b) => a.createdAt - b.createdAt)
  }

  async list(): Promise<SnapshotInfo[]> {
    const infos: SnapshotInfo[] = []
    for (const { snapshotId, name, sandboxId, createdAt, layers } of this.all()) {
      // A snapshot that was just deleted, or is damaged, has no known size.
      const sizeBytes = await this.#layers.sizeOf(layers).catch(() => undefined)
      infos.push({
        snapshotId,
        name,
        sandboxId,
        createdAt: new Date(createdAt),
        sizeBytes,
      })
    }
    return infos
  }

  /** Resolves to false if it does not exist. The next sweep removes its layers. */
  delete(snapshotId: string): Promise<boolean> {
    const remove = async () => {
      if (!/^[a-z2-7]{16}$/.test(snapshotId)) return false
      try {
        unlinkSync(this.#file(snapshotId))
        return true
      } catch (error) {
        if (errnoOf(error) === 'ENOENT') return false
        throw translate(error, `Cannot delete the snapshot ${snapshotId}`)
      }
    }
    return this.#layers.locked(remove).catch((error) => {
      // The disk is too full for a lock, and deleting frees space. If another process rewrites the record right now,
      // delete it again.
      if (SandboxError.is(error, 'disk_full')) return remove()
      throw error
    })
  }

  /**
   * Replaces layers by others with the same content. The lock prevents a concurrently deleted snapshot from being
   * restored.
   */
  replaceLayers(from: readonly string[], to: readonly string[]): Promise<number> {
    return this.#layers.locked(async () => {
      const same = this.all().filter(({ layers }) => layers.join() === from.join())
      for (const record of same) await this.#write({ ...record, layers: to })
      return same.length
    })
  }

  /** Removes files of processes that died while they wrote. */
  removePartials(): Promise<void> {
    return removePartials(this.#folder)
  }

  #write(
    record: SnapshotRecord<Image>,
    durable: true | ((file: string) => Promise<void>) = true,
  ): Promise<void> {
    return writeAtomically(this.#file(record.snapshotId), record, {
      durable,
      what: 'Cannot write the snapshot’s record',
    })
  }

  #read(snapshotId: string): SnapshotRecord<Image> | undefined {
    let text: string
    try {
      text = readFileSync(this.#file(snapshotId), 'utf8')
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return undefined
      throw translate(error, `Cannot read the snapshot ${snapshotId}`)
    }
    let record: SnapshotRecord<Image> | undefined
    try {
      record = JSON.parse(text) as SnapshotRecord<Image>
    } catch {
      // Reported below.
    }
    if (record?.version === 1 && Array.isArray(record.layers)) return record
    throw new SandboxError('internal', `The record of the snapshot ${snapshotId} is damaged.`, {
      hint: `Remove ${this.#file(snapshotId)}.`,
    })
  }

  #file(snapshotId: string): string {
    return path.join(this.#folder, `${snapshotId}.json`)
  }
}

export function noSnapshot(snapshotId: string): SandboxError {
  return new SandboxError('not_found', `There is no snapshot ${snapshotId}.`, {
    provider: 'engine',
    hint: {
      sdk: 'See provider.listSnapshots().',
      http: 'See GET /v1/snapshots.',
      cli: 'See sandkasten snapshot list.',
    },
  })
}
