import { mkdir, readdir, realpath, rename } from 'node:fs/promises'
import path from 'node:path'
import type { CreateSpec, ProviderDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { throwIfAborted } from '../../shared/abort.ts'
import { randomId } from '../../shared/ids.ts'
import { pageOf } from '../../shared/page.ts'
import type {
  CallOptions,
  CreateOption,
  ListSandboxesOpts,
  SandboxInfo,
  SandboxPage,
  SandboxStatus,
} from '../../spec/index.ts'
import type { LocalCapabilities } from './capabilities.ts'
import { foldersOf } from './environment.ts'
import { errnoOf, guarded } from './errors.ts'
import { removeFolder } from './files.ts'
import { LocalProcesses } from './processes.ts'
import {
  identityOf,
  isAlive,
  Names,
  readRecord,
  type SandboxRecord,
  withLock,
  writeRecord,
} from './record.ts'
import { LocalSandbox } from './sandbox.ts'
import type { LocalShell } from './shell.ts'
import { LocalSnapshots } from './snapshots.ts'
import type { LocalTerminal } from './terminal.ts'

/**
 * Local sandboxes below one root folder. Several processes may use the same root at once: the folders are the
 * truth, and this object keeps only what cannot be shared: open pipes and timers.
 */
export class LocalDriver implements ProviderDriver<LocalCapabilities> {
  readonly name = 'local'
  readonly isolation = 'none'
  readonly capabilities: LocalCapabilities
  readonly createOptions: readonly CreateOption[] = [
    'name',
    'label',
    'labels',
    'envVars',
    'lifetimeMs',
    'snapshotId',
    'ports',
    'repo',
    'gitToken',
  ]
  readonly inheritEnv: readonly string[]
  readonly #givenRoot: string
  readonly #open = new Map<string, OpenThings>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  #root: string
  #rootMade: Promise<void> | undefined
  #names: Names
  snapshots: LocalSnapshots

  constructor(options: { root: string; inheritEnv: readonly string[]; capabilities: LocalCapabilities }) {
    this.#givenRoot = options.root
    this.#root = options.root
    this.inheritEnv = options.inheritEnv
    this.capabilities = options.capabilities
    this.#names = new Names(this.#root)
    this.snapshots = new LocalSnapshots(this.#root)
  }

  async create(spec: CreateSpec, { signal }: CallOptions): Promise<LocalSandbox> {
    await this.#prepare()
    const sandboxId = randomId()
    const folder = this.#folder(sandboxId)
    const now = Date.now()
    const { name, label, labels, envVars, lifetimeMs } = spec
    const record: SandboxRecord = {
      version: 1,
      sandboxId,
      ...(name === undefined ? {} : { name }),
      ...(label === undefined ? {} : { label }),
      labels,
      envVars,
      createdAt: now,
      ...(lifetimeMs === undefined ? {} : { lifetimeMs, expiresAt: now + lifetimeMs }),
      status: 'creating',
      incarnation: randomId(),
      creator: await identityOf(process.pid),
    }
    try {
      await guarded('The sandbox’s folder could not be made', () =>
        mkdir(folder, { recursive: true, mode: 0o700 }),
      )
      await writeRecord(folder, record)
      if (name !== undefined && !(await this.#names.claim(name, sandboxId, (id) => this.#exists(id))))
        throw nameTaken(name)
      await this.#fill(folder, spec.snapshotId)
      throwIfAborted(signal, 'Creating the sandbox')
      if (!spec.deferReady) await this.#change(sandboxId, (record) => ({ ...record, status: 'running' }))
    } catch (error) {
      await this.destroy(sandboxId)
      // Where not even the record could be written, destroy knows of nothing.
      await removeFolder(folder).catch(ignoreNotFound)
      throw error
    }
    this.#arm(sandboxId, record.expiresAt)
    return new LocalSandbox(this, folder, record)
  }

  async open(
    sandboxId: string,
    { resume }: { resume: boolean },
    { signal }: CallOptions,
  ): Promise<LocalSandbox> {
    await this.#prepare()
    let record = await this.current(sandboxId)
    // Somebody is still creating it: wait for him, or clean up after him.
    for (let waited = 1; record.status === 'creating'; waited += 1) {
      throwIfAborted(signal)
      if (!(await isAlive(record.creator))) {
        await this.destroy(sandboxId)
        throw notFound(sandboxId)
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(waited * 2, 50)))
      record = await this.current(sandboxId)
    }
    if (record.status === 'stopped' && resume) record = await this.start(sandboxId)
    this.#arm(sandboxId, record.expiresAt)
    return new LocalSandbox(this, this.#folder(sandboxId), record)
  }

  async find(name: string): Promise<string | undefined> {
    await this.#prepare()
    const sandboxId = await this.#names.find(name)
    return sandboxId !== undefined && (await this.#exists(sandboxId)) ? sandboxId : undefined
  }

  async list(filter: ListSandboxesOpts): Promise<SandboxPage> {
    await this.#prepare()
    const ids = await readdir(path.join(this.#root, 'sandboxes')).catch((error) => {
      if (errnoOf(error) === 'ENOENT') return []
      throw error
    })
    const infos = await Promise.all(
      ids.filter((id) => idPattern.test(id)).map((id) => this.info(id).catch(ignoreNotFound)),
    )
    return pageOf(
      infos.filter((info) => info !== undefined),
      filter,
    )
  }

  async destroy(sandboxId: string): Promise<boolean> {
    await this.#prepare()
    const record = idPattern.test(sandboxId) ? await readRecord(this.#folder(sandboxId)) : undefined
    if (!record) return false
    clearTimeout(this.#timers.get(sandboxId))
    this.#timers.delete(sandboxId)
    // Stopped in the record first, so that no handle starts anything while its processes are being ended.
    // On a full disk that cannot be written; removing must work all the same.
    await this.#change(sandboxId, (record) => ({ ...record, status: 'stopped' })).catch((error) => {
      if (!SandboxError.is(error, 'disk_full')) ignoreNotFound(error)
    })
    await this.#endProcesses(sandboxId)
    const trash = path.join(this.#root, 'sandboxes', `.${sandboxId}.${randomId(8)}`)
    return guarded(`The sandbox ${sandboxId} could not be removed`, async () => {
      const mine = await rename(this.#folder(sandboxId), trash).then(
        () => true,
        (error) => ignoreNotFound(error) ?? false,
      )
      if (mine) await removeFolder(trash)
      if (record.name !== undefined) await this.#names.release(record.name, sandboxId)
      return mine
    })
  }

  async health(): Promise<boolean> {
    return this.#prepare().then(
      () => true,
      () => false,
    )
  }

  async listSnapshots() {
    await this.#prepare()
    return this.snapshots.list()
  }

  async deleteSnapshot(snapshotId: string) {
    await this.#prepare()
    return this.snapshots.delete(snapshotId)
  }

  // For handles

  /** The record as it is now. A sandbox whose time is up is stopped by whoever looks first. */
  async current(sandboxId: string): Promise<SandboxRecord> {
    const record = idPattern.test(sandboxId) ? await readRecord(this.#folder(sandboxId)) : undefined
    if (!record) throw notFound(sandboxId)
    if (record.status !== 'running' || record.expiresAt === undefined || record.expiresAt > Date.now())
      return record
    return this.stop(sandboxId, record.incarnation)
  }

  async info(sandboxId: string): Promise<SandboxInfo> {
    const record = await this.current(sandboxId)
    const { name, label, labels, createdAt, expiresAt } = record
    const abandoned = record.status === 'creating' && !(await isAlive(record.creator))
    const status: SandboxStatus = abandoned ? 'failed' : record.status
    return {
      id: `local:${sandboxId}`,
      sandboxId,
      status,
      ...(name === undefined ? {} : { name }),
      ...(label === undefined ? {} : { label }),
      labels: { ...labels },
      createdAt: new Date(createdAt),
      ...(expiresAt === undefined || status !== 'running' ? {} : { expiresAt: new Date(expiresAt) }),
    }
  }

  async stop(sandboxId: string, incarnation: string): Promise<SandboxRecord> {
    const record = await this.#change(sandboxId, (record) => {
      if (record.status === 'stopped') return record
      if (record.incarnation !== incarnation)
        throw new SandboxError(
          'interrupted',
          `The sandbox ${sandboxId} was restarted since this handle was made.`,
        )
      return { ...record, status: 'stopped' }
    })
    await this.#endProcesses(sandboxId)
    return record
  }

  async start(sandboxId: string): Promise<SandboxRecord> {
    const record = await this.#change(sandboxId, (record) => {
      if (record.status !== 'stopped') return record
      const lifetime = record.lifetimeMs === undefined ? {} : { expiresAt: Date.now() + record.lifetimeMs }
      return { ...record, status: 'running', incarnation: randomId(), ...lifetime }
    })
    this.#arm(sandboxId, record.expiresAt)
    return record
  }

  async extend(sandboxId: string, ms: number): Promise<void> {
    const { expiresAt } = await this.#change(sandboxId, (record) => {
      if (record.expiresAt === undefined) return record
      return { ...record, expiresAt: Math.max(record.expiresAt, Date.now() + ms) }
    })
    this.#arm(sandboxId, expiresAt)
  }

  async ready(sandboxId: string): Promise<void> {
    await this.#change(sandboxId, (record) =>
      record.status === 'creating' ? { ...record, status: 'running' } : record,
    )
  }

  /** What handles of the same sandbox, made by this provider, share. */
  openThings(sandboxId: string): OpenThings {
    let things = this.#open.get(sandboxId)
    if (!things) {
      const sandboxFolder = this.#folder(sandboxId)
      const processes = new LocalProcesses({
        sandboxId,
        sandboxFolder,
        folder: foldersOf(sandboxFolder).processes,
      })
      things = { processes, shells: new Map(), terminals: new Map() }
      this.#open.set(sandboxId, things)
    }
    return things
  }

  #folder(sandboxId: string): string {
    return path.join(this.#root, 'sandboxes', sandboxId)
  }

  async #exists(sandboxId: string): Promise<boolean> {
    return idPattern.test(sandboxId) && (await readRecord(this.#folder(sandboxId))) !== undefined
  }

  /** The root is made when it is first needed, and its true path used from then on: confinement compares paths. */
  #prepare(): Promise<void> {
    this.#rootMade ??= guarded(`The provider’s folder ${this.#givenRoot} could not be made`, async () => {
      await mkdir(path.join(this.#givenRoot, 'sandboxes'), { recursive: true, mode: 0o700 })
      this.#root = await realpath(this.#givenRoot)
      this.#names = new Names(this.#root)
      this.snapshots = new LocalSnapshots(this.#root)
    }).catch((error) => {
      this.#rootMade = undefined
      throw error
    })
    return this.#rootMade
  }

  async #fill(folder: string, snapshotId: string | undefined): Promise<void> {
    const { workspace, home, tmp, partial, processes } = foldersOf(folder)
    if (snapshotId !== undefined) await this.snapshots.restore(snapshotId, workspace)
    await guarded('The sandbox’s folders could not be made', async () => {
      for (const each of [workspace, home, tmp, partial, processes])
        await mkdir(each, { recursive: true, mode: 0o700 })
    })
  }

  async #change(sandboxId: string, change: (record: SandboxRecord) => SandboxRecord): Promise<SandboxRecord> {
    const folder = this.#folder(sandboxId)
    if (!(await this.#exists(sandboxId))) throw notFound(sandboxId)
    return withLock(path.join(folder, 'lock'), async () => {
      const record = await readRecord(folder)
      if (!record) throw notFound(sandboxId)
      const changed = change(record)
      if (changed !== record) await writeRecord(folder, changed)
      return changed
    }).catch((error) => {
      // The folder was taken away while we waited for its lock.
      throw SandboxError.is(error, 'file_not_found') ? notFound(sandboxId) : error
    })
  }

  async #endProcesses(sandboxId: string): Promise<void> {
    const { processes, shells, terminals } = this.openThings(sandboxId)
    await processes.stopAll()
    for (const shell of shells.values()) await shell.close()
    for (const terminal of terminals.values()) await terminal.kill('SIGKILL')
    this.#open.delete(sandboxId)
  }

  /** A timer does not keep this process alive; whoever looks later, or the supervisors, see to what it misses. */
  #arm(sandboxId: string, expiresAt: number | undefined): void {
    clearTimeout(this.#timers.get(sandboxId))
    if (expiresAt === undefined) return
    const timer = setTimeout(
      () => {
        // Looking stops it if its time is really up; if that was put off meanwhile, by anybody, wait on.
        this.current(sandboxId).then(
          (record) => record.status === 'running' && this.#arm(sandboxId, record.expiresAt),
          () => this.#timers.delete(sandboxId),
        )
      },
      Math.min(Math.max(expiresAt - Date.now(), 1), 60_000),
    )
    timer.unref()
    this.#timers.set(sandboxId, timer)
  }
}

interface OpenThings {
  readonly processes: LocalProcesses
  readonly shells: Map<string, LocalShell>
  readonly terminals: Map<string, LocalTerminal>
}

const idPattern = /^[a-z2-7]{16}$/

function notFound(sandboxId: string): SandboxError {
  return new SandboxError('not_found', `There is no sandbox ${sandboxId}.`, { provider: 'local', sandboxId })
}

function nameTaken(name: string): SandboxError {
  return new SandboxError('conflict', `There is a sandbox with the name “${name}” already.`, {
    provider: 'local',
    details: { name },
  })
}

function ignoreNotFound(error: unknown): undefined {
  if (!SandboxError.is(error, 'not_found') && errnoOf(error) !== 'ENOENT') throw error
}
