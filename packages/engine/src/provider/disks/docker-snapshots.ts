import { mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import type { SnapshotInfo } from '@sandkasten/sdk'
import { type ProcessIdentity, replaceFile } from '@sandkasten/sdk/internal'
import type { NormalNetwork } from '@sandkasten/sdk/provider'
import type { Image } from '../../isolators/isolator.ts'
import { readJson } from '../../layers/atomic-file.ts'
import { noSnapshot } from '../../layers/snapshots.ts'
import { namesIn } from '../../read-files.ts'

/** The record of a snapshot that a daemon keeps as an image. */
export interface SnapshotRecord {
  readonly snapshotId: string
  readonly sandboxId: string
  readonly createdAt: number
  readonly name?: string
  readonly sizeBytes?: number
  /** The image that the sandbox was created from. */
  readonly of: Image
  /** If the sandbox had a policy. */
  readonly network?: NormalNetwork
  /** Deleted, or made for a fork. The daemon's image is removed with the last sandbox that uses it. */
  readonly hidden: boolean
  /** The process that makes it or forks from it. The image stays while that process lives. */
  readonly by?: ProcessIdentity
}

/** One file for each record. */
export class DockerSnapshots {
  readonly #folder: string

  constructor(root: string) {
    this.#folder = path.join(root, 'docker-snapshots')
  }

  async write(record: SnapshotRecord): Promise<void> {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    await replaceFile(this.#file(record.snapshotId), JSON.stringify(record))
  }

  /** Makes a complete snapshot visible in lists. */
  show(snapshotId: string): Promise<void> {
    const { by: _, ...record } = this.get(snapshotId)
    return this.write({ ...record, hidden: false })
  }

  /** Hides the snapshot from lists. Sandboxes that use it keep its image. */
  async hide(snapshotId: string): Promise<void> {
    const { by: _, ...record } = this.get(snapshotId)
    await this.write({ ...record, hidden: true })
  }

  /** Throws `not_found`. */
  get(snapshotId: string): SnapshotRecord {
    const record = this.find(snapshotId)
    if (record) return record
    throw noSnapshot(snapshotId)
  }

  /** Also finds hidden snapshots. */
  find(snapshotId: string): SnapshotRecord | undefined {
    return /^[a-z2-7]{1,64}$/.test(snapshotId) ? readJson(this.#file(snapshotId)) : undefined
  }

  forget(snapshotId: string): void {
    rmSync(this.#file(snapshotId), { force: true })
  }

  all(): SnapshotRecord[] {
    const ids = namesIn(this.#folder).map((name) => /^([a-z2-7]+)\.json$/.exec(name)?.[1])
    return ids.map((id) => id && this.find(id)).filter((record) => typeof record === 'object')
  }

  list(): SnapshotInfo[] {
    const shown = this.all().filter(({ hidden }) => !hidden)
    return shown
      .sort((a, b) => a.createdAt - b.createdAt)
      .map(({ of: _, hidden: __, by: ___, createdAt, ...info }) => ({
        ...info,
        createdAt: new Date(createdAt),
      }))
  }

  #file(snapshotId: string): string {
    return path.join(this.#folder, `${snapshotId}.json`)
  }
}
