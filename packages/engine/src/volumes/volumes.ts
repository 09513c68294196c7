import { chmodSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { errnoOf, guarded, identityOf, isAlive, sweepLocks, withLock } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import { readJson, removePartials, writeAtomically } from '../layers/atomic-file.ts'
import type { Trees } from '../layers/index.ts'
import { namesIn } from '../read-files.ts'
import { type WriterClaim, WriterClaims } from './writers.ts'

/** A folder that outlives the sandboxes it is mounted in. */
export interface VolumeInfo {
  readonly name: string
  readonly createdAt: Date
  readonly sizeBytes: number
  /** The sandbox that may write to it now. */
  readonly writer?: string
}

export interface VolumeAdmin {
  /** Throws `conflict` if the volume exists. */
  create(name: string): Promise<VolumeInfo>
  /** Throws `not_found`. */
  get(name: string): Promise<VolumeInfo>
  list(): Promise<VolumeInfo[]>
  /**
   * Removes the volume and its content. Returns false if it does not exist. Throws `conflict` while any sandbox, even a
   * stopped one, mounts it.
   */
  remove(name: string): Promise<boolean>
}

/** The information about sandboxes that volumes need. */
export interface VolumeUsers {
  /** The sandboxes that name the volume. */
  usersOf(volume: string): Promise<string[]>
  /** Whether that incarnation runs or is starting. */
  lives(claim: WriterClaim): Promise<boolean>
}

/**
 *     volumes/<name>/volume.json   the creation time
 *     volumes/<name>/data/         the mounted folder, with the owners that sandboxes see
 *     volumes/<name>/writer.json   which sandbox may write, see writers.ts
 *     volumes/.…                   volumes that are being created or removed
 */
export class Volumes implements VolumeAdmin {
  readonly writers: WriterClaims
  readonly #folder: string
  readonly #trees: Trees
  readonly #users: VolumeUsers

  constructor(root: string, trees: Trees, users: VolumeUsers) {
    this.#folder = path.join(root, 'volumes')
    this.#trees = trees
    this.#users = users
    this.writers = new WriterClaims((name) => path.join(this.#folder, name), users)
  }

  dataOf(name: string): string {
    return path.join(this.#folder, checkedVolume(name), 'data')
  }

  async create(name: string): Promise<VolumeInfo> {
    const folder = path.join(this.#folder, checkedVolume(name))
    const { pid, started = '' } = await identityOf(process.pid)
    const draft = path.join(this.#folder, `.${randomId()}.${pid}-${started}`)
    await guarded(`Cannot create the volume ${name}`, async () => {
      try {
        mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
        mkdirSync(draft, { mode: 0o700 })
        // Each image has its own user, so everyone may write here. The folder above limits who can reach it.
        mkdirSync(path.join(draft, 'data'))
        chmodSync(path.join(draft, 'data'), 0o777)
        await writeAtomically(
          path.join(draft, 'volume.json'),
          { version: 1, createdAt: Date.now() },
          { durable: true },
        )
        renameSync(draft, folder)
      } catch (error) {
        rmSync(draft, { recursive: true, force: true })
        if (errnoOf(error) !== 'ENOTEMPTY' && errnoOf(error) !== 'EEXIST') throw error
        throw new SandboxError('conflict', `The volume “${name}” already exists.`, {
          details: { volume: name },
        })
      }
    })
    return this.get(name)
  }

  async get(name: string): Promise<VolumeInfo> {
    const folder = path.join(this.#folder, checkedVolume(name))
    const record = readJson<{ createdAt: number }>(path.join(folder, 'volume.json'))
    if (!record) throw noVolume(name)
    const { bytes } = await this.#trees.measure(this.dataOf(name))
    const writer = await this.writers.of(name)
    return {
      name,
      createdAt: new Date(record.createdAt),
      sizeBytes: bytes,
      writer,
    }
  }

  async list(): Promise<VolumeInfo[]> {
    const names = namesIn(this.#folder).filter((name) => namePattern.test(name) && name !== 'lock')
    const infos = await Promise.all(
      names.sort().map((name) =>
        this.get(name).catch((error) => {
          // Removed since the listing.
          if (!SandboxError.is(error, 'not_found', 'file_not_found')) throw error
        }),
      ),
    )
    return infos.filter((info) => info !== undefined)
  }

  async remove(name: string): Promise<boolean> {
    const folder = path.join(this.#folder, checkedVolume(name))
    if (!existsSync(folder)) return false
    const trash = path.join(this.#folder, `.trash-${randomId()}`)
    const removed = await this.#locked(async () => {
      const users = await this.#users.usersOf(name)
      if (users.length > 0)
        throw new SandboxError('conflict', `The volume “${name}” is used by ${users.join(', ')}.`, {
          details: { volume: name, sandboxes: users },
          hint: 'Destroy these sandboxes first.',
        })
      if (!existsSync(folder)) return false
      await guarded(`Cannot remove the volume ${name}`, async () => renameSync(folder, trash))
      return true
    })
    if (removed) await this.#trees.remove(trash)
    return removed
  }

  /**
   * Throws if a volume is missing. Call it after the sandbox's record is written: from then on the volumes cannot be
   * removed.
   */
  async need(names: readonly string[]): Promise<void> {
    await this.#locked(async () => {
      const gone = names.find((name) => !existsSync(this.dataOf(name)))
      if (gone !== undefined) throw noVolume(gone)
    })
  }

  /** Cleans up after killed processes. */
  async sweep(): Promise<void> {
    for (const name of namesIn(this.#folder)) {
      const [, pid, started] = /^\.[a-z2-7]{16}\.(\d+)-(\d*)$/.exec(name) ?? []
      const maker = pid === undefined ? undefined : { pid: Number(pid), started: started || undefined }
      if (name.startsWith('.') && !(await isAlive(maker)))
        await this.#trees.remove(path.join(this.#folder, name))
    }
    const volumes = namesIn(this.#folder).filter((name) => namePattern.test(name) && name !== 'lock')
    for (const folder of [this.#folder, ...volumes.map((name) => path.join(this.#folder, name))]) {
      if (!existsSync(folder)) continue
      await sweepLocks(folder)
      await removePartials(folder)
    }
  }

  async #locked<T>(work: () => Promise<T>): Promise<T> {
    await guarded('Cannot create the folder for volumes', async () => {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    })
    return withLock(path.join(this.#folder, 'lock'), work)
  }
}

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

export function checkedVolume(name: string): string {
  if (typeof name === 'string' && namePattern.test(name) && name !== 'lock') return name
  throw new SandboxError('invalid_argument', `“${String(name)}” is not a valid volume name.`, {
    hint: 'Use 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit. “lock” is reserved.',
  })
}

function noVolume(name: string): SandboxError {
  return new SandboxError('not_found', `Volume “${name}” not found.`, {
    details: { volume: name },
    hint: 'Create it with provider.volumes.create(name).',
  })
}
