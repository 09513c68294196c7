import { chmodSync, existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import {
  type CallOptions,
  type CreateVolumeOptions,
  SandboxError,
  type VolumeAdmin,
  type VolumeInfo,
} from '@sandkasten/sdk'
import { errnoOf, guarded, identityOf, isAlive, sweepLocks, withLock } from '@sandkasten/sdk/internal'
import { randomId, throwIfAborted } from '@sandkasten/sdk/provider'
import { readJson, removePartials, writeAtomically } from '../layers/atomic-file.ts'
import type { Trees } from '../layers/index.ts'
import { namesIn } from '../read-files.ts'
import { canLimitVolumes, createFileSystem, volumeBytes } from './limited-volume.ts'
import { type WriterClaim, WriterClaims } from './writers.ts'

/** The information about sandboxes that volumes need. */
export interface VolumeUsers {
  /** The sandboxes that name the volume. */
  usersOf(volume: string): Promise<string[]>
  /** Whether that incarnation runs or is starting. */
  lives(claim: WriterClaim): Promise<boolean>
}

/**
 *     volumes/<name>/volume.json   the creation time and the size limit
 *     volumes/<name>/data/         the mounted folder, with the owners that sandboxes see
 *     volumes/<name>/data.ext4     instead of it, if the volume has a size limit; see limited-volume.ts
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

  /** What sandboxes mount: a folder, or a file with a file system that contains the folder. */
  sourceOf(name: string): { source: string; fileSystem: boolean } {
    const folder = path.join(this.#folder, checkedVolume(name))
    const limited = path.join(folder, 'data.ext4')
    return existsSync(limited)
      ? { source: limited, fileSystem: true }
      : { source: path.join(folder, 'data'), fileSystem: false }
  }

  async create(name: string, { limitMb, signal }: CreateVolumeOptions = {}): Promise<VolumeInfo> {
    throwIfAborted(signal, 'Creating the volume')
    const folder = path.join(this.#folder, checkedVolume(name))
    const bytes = limitMb === undefined ? undefined : volumeBytes(limitMb)
    if (bytes !== undefined && !canLimitVolumes()) throw cannotLimit()
    const { pid, started = '' } = await identityOf(process.pid)
    const draft = path.join(this.#folder, `.${randomId()}.${pid}-${started}`)
    await guarded(`Cannot create the volume ${name}`, async () => {
      try {
        mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
        mkdirSync(draft, { mode: 0o700 })
        // Each image has its own user, so everyone may write here. The folder above limits who can reach it.
        mkdirSync(path.join(draft, 'data'))
        chmodSync(path.join(draft, 'data'), 0o777)
        if (bytes !== undefined) await createFileSystem(draft, bytes)
        await writeAtomically(
          path.join(draft, 'volume.json'),
          { version: 1, createdAt: Date.now(), limitMb },
          { durable: true },
        )
        throwIfAborted(signal, 'Creating the volume')
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

  async get(name: string, { signal }: CallOptions = {}): Promise<VolumeInfo> {
    throwIfAborted(signal, 'Reading the volume')
    const info = await this.#info(name)
    if (!info) throw noVolume(name)
    if (info.sizeBytes !== undefined) return info
    const { bytes } = await this.#trees.measure(this.sourceOf(name).source)
    return { ...info, sizeBytes: bytes }
  }

  /** Does not measure volumes without a limit, because that reads all their folders. */
  async list({ signal }: CallOptions = {}): Promise<VolumeInfo[]> {
    throwIfAborted(signal, 'Listing the volumes')
    const names = namesIn(this.#folder).filter((name) => namePattern.test(name) && name !== 'lock')
    const infos = await Promise.all(names.sort().map((name) => this.#info(name)))
    return infos.filter((info) => info !== undefined)
  }

  async remove(name: string, { signal }: CallOptions = {}): Promise<boolean> {
    throwIfAborted(signal, 'Removing the volume')
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
      const gone = names.find((name) => !existsSync(this.sourceOf(name).source))
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

  async #info(name: string): Promise<VolumeInfo | undefined> {
    const file = path.join(this.#folder, checkedVolume(name), 'volume.json')
    const record = readJson<{ createdAt: number; limitMb?: number }>(file)
    if (!record) return undefined
    const { source, fileSystem } = this.sourceOf(name)
    // The file is sparse: its blocks are what the volume uses on this machine.
    const blocks = fileSystem ? statSync(source, { throwIfNoEntry: false })?.blocks : undefined
    return {
      name,
      createdAt: new Date(record.createdAt),
      limitMb: record.limitMb,
      sizeBytes: blocks === undefined ? undefined : blocks * 512,
      writer: await this.writers.of(name),
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

function cannotLimit(): SandboxError {
  return new SandboxError('unsupported', 'The size of volumes cannot be limited here.', {
    hint: 'Omit the limit of the volume; or run as root, with loop devices and e2fsprogs.',
  })
}

function noVolume(name: string): SandboxError {
  return new SandboxError('not_found', `Volume “${name}” not found.`, {
    details: { volume: name },
    hint: {
      sdk: 'Create it with provider.volumes.create(name).',
      http: 'Create it with POST /v1/volumes.',
      cli: 'Create it with: sandkasten volumes create NAME',
    },
  })
}
