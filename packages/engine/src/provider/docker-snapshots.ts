import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { SandboxError, type SnapshotInfo } from '@sandkasten/sdk'
import { errnoOf, type ProcessIdentity, replaceFile } from '@sandkasten/sdk/internal'
import type { Image } from '../isolators/isolator.ts'

/** What is known of a snapshot that a daemon keeps as an image; a file each. */
export interface SnapshotRecord {
  readonly snapshotId: string
  readonly sandboxId: string
  readonly createdAt: number
  readonly name?: string
  readonly sizeBytes?: number
  /** What the sandbox was made of in the first place. */
  readonly of: Image
  /** Deleted, or of a fork and never shown; its image is removed when the last sandbox that stands on it is. */
  readonly hidden: boolean
  /** Who makes it, or forks with it; while that process lives its image stays. */
  readonly by?: ProcessIdentity
}

export class DockerSnapshots {
  readonly #folder: string

  constructor(root: string) {
    this.#folder = path.join(root, 'docker-snapshots')
  }

  async write(record: SnapshotRecord): Promise<void> {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    await replaceFile(this.#file(record.snapshotId), JSON.stringify(record))
  }

  /** It is whole: everybody may see it. */
  show(snapshotId: string): Promise<void> {
    const { by: _, ...record } = this.get(snapshotId)
    return this.write({ ...record, hidden: false })
  }

  /** Nobody needs it but those who stand on it. */
  async hide(snapshotId: string): Promise<void> {
    const { by: _, ...record } = this.get(snapshotId)
    await this.write({ ...record, hidden: true })
  }

  /** Throws `not_found`. */
  get(snapshotId: string): SnapshotRecord {
    const record = this.find(snapshotId)
    if (record) return record
    throw new SandboxError('not_found', `There is no snapshot ${snapshotId}.`, {
      hint: {
        sdk: 'See provider.listSnapshots().',
        http: 'See GET /v1/snapshots.',
        cli: 'See sandkasten snapshot list.',
      },
    })
  }

  /** Also one that is hidden. */
  find(snapshotId: string): SnapshotRecord | undefined {
    if (!/^[a-z2-7]{1,64}$/.test(snapshotId)) return undefined
    try {
      return JSON.parse(readFileSync(this.#file(snapshotId), 'utf8')) as SnapshotRecord
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error
      return undefined
    }
  }

  forget(snapshotId: string): void {
    rmSync(this.#file(snapshotId), { force: true })
  }

  all(): SnapshotRecord[] {
    let names: string[] = []
    try {
      names = readdirSync(this.#folder)
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error
    }
    const ids = names.filter((name) => /^[a-z2-7]+\.json$/.test(name)).map((name) => name.slice(0, -5))
    return ids.map((id) => this.find(id)).filter((record) => record !== undefined)
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
