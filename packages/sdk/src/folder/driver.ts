import { mkdir, readdir, realpath, rename } from 'node:fs/promises'
import path from 'node:path'
import type { CreateSpec, ProviderDriver, SandboxDriver } from '../core/driver.ts'
import { SandboxError } from '../errors.ts'
import { throwIfAborted } from '../shared/calls/abort.ts'
import { randomId } from '../shared/ids.ts'
import { pageOf } from '../shared/page.ts'
import type {
  CallOptions,
  Capabilities,
  CreateOption,
  Isolation,
  ListSandboxesOpts,
  SandboxInfo,
  SandboxPage,
} from '../spec/index.ts'
import { Drafts } from './drafts.ts'
import { errnoOf, guarded, translate } from './errors.ts'
import { damagedInfo, infoOf } from './info.ts'
import { removeSeal, sweepLocks, withLock } from './lock.ts'
import { Names } from './names.ts'
import { isAlive, isDamaged, newRecord, readRecord, type SandboxRecord, writeRecord } from './record.ts'
import { removeFolder } from './remove.ts'

/**
 * A provider whose sandboxes are folders below one root of this machine. Several processes may use the same root at
 * once: all shared state is on disk.
 *
 *     creating ──ready──► running ◄──start── stopped        one record, changed under the sandbox's lock;
 *         │                  └──────stop───────►▲           every start is a new incarnation
 *         └─ creator died: shown as failed, removed on the next access
 *
 * The subclass decides what a folder contains, and how a sandbox starts and stops.
 */
export abstract class FolderDriver<C extends Capabilities> implements ProviderDriver<C> {
  abstract readonly name: string
  abstract readonly isolation: Isolation
  abstract readonly capabilities: C
  abstract readonly createOptions: readonly CreateOption[]
  abstract readonly snapshotInterrupts: boolean
  readonly #givenRoot: string
  readonly #timers = new Map<string, NodeJS.Timeout>()
  /** Incarnations that we stopped but could not mark as stopped, because the disk was full. */
  readonly #stopped = new Set<string>()
  readonly #drafts = new Drafts(() => path.join(this.#root, 'sandboxes'))
  #root: string
  #prepared: Promise<void> | undefined
  #closed = false
  #names: Names

  constructor(root: string) {
    this.#givenRoot = root
    this.#root = root
    this.#names = new Names(root)
  }

  /** Checks the options of a create, and returns the part that the record keeps. */
  protected async plan(_spec: CreateSpec): Promise<SandboxRecord['extra']> {
    return undefined
  }

  /** Creates the content of a new sandbox's folder besides the record. Nothing runs yet. */
  protected async fill(_folder: string, _record: SandboxRecord, _spec: CreateSpec): Promise<void> {}
  /** Starts a stopped sandbox. Leaves nothing running if it rejects. */
  protected abstract boot(folder: string, record: SandboxRecord): Promise<void>
  /** Stops all programs of the sandbox, and resolves when they have ended. No effect if nothing runs. */
  protected abstract halt(folder: string, record: SandboxRecord): Promise<void>
  /**
   * Completes or undoes an operation that a dead process had noted in the record. Runs under the sandbox's lock before
   * every change; the returned record is written.
   */
  protected async mend(_folder: string, record: SandboxRecord): Promise<SandboxRecord> {
    return record
  }
  /** Releases resources outside the folder, before the folder is removed. */
  protected async release(_folder: string, _record: SandboxRecord): Promise<void> {}
  /** Stops and releases a sandbox whose record cannot be read. */
  protected async abandon(_folder: string, _sandboxId: string): Promise<void> {}
  /** Whether a sandbox with the status running really runs. */
  protected abstract lives(folder: string, record: SandboxRecord): Promise<boolean>
  protected abstract handle(folder: string, record: SandboxRecord): SandboxDriver

  /** The real path of the root, known after the first call. */
  protected get root(): string {
    return this.#root
  }

  protected folderOf(sandboxId: string): string {
    return path.join(this.#root, 'sandboxes', sandboxId)
  }

  async create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver> {
    await this.prepare()
    return this.make(spec, await this.plan(spec), call)
  }

  /** Creates a sandbox. Leaves nothing behind when it rejects. */
  protected async make(
    spec: CreateSpec,
    extra: SandboxRecord['extra'],
    { signal }: CallOptions,
  ): Promise<SandboxDriver> {
    const draft = await guarded('The sandbox’s folder could not be created', () => this.#drafts.make())
    const record = await newRecord(draft.sandboxId, spec, extra)
    const { sandboxId, name } = record
    const folder = this.folderOf(sandboxId)
    try {
      await guarded('The sandbox’s folder could not be created', () =>
        this.#drafts.appear(draft, folder, record),
      )
      if (name !== undefined && !(await this.#names.claim(name, sandboxId, (id) => this.#exists(id))))
        throw nameTaken(name)
      await this.fill(folder, record, spec)
      throwIfAborted(signal, 'Creating the sandbox')
      await this.boot(folder, record)
      // Needs no lock: only the creator or a destroy changes a sandbox during its creation.
      if (!spec.deferReady) await writeRecord(folder, { ...record, status: 'running' })
      this.#arm(sandboxId, record.expiresAt)
      return this.handle(folder, record)
    } catch (error) {
      const left = await this.destroy(sandboxId).then(
        // Without a record, destroy finds nothing.
        () => removeFolder(folder).catch(ignoreNotFound),
        (also: unknown) => also,
      )
      throw left === undefined ? error : bothOf(error, left, `The folder ${folder} is left`)
    }
  }

  /**
   * Cleans up after processes that were killed: incomplete sandboxes, names without a sandbox, and programs of stopped
   * sandboxes. Safe while other processes work. Returns the ids of the removed sandboxes.
   */
  async sweep(): Promise<string[]> {
    await this.prepare()
    const place = path.join(this.#root, 'sandboxes')
    const removed = await Promise.all(
      (await readdir(place)).map(async (name) => {
        if (idPattern.test(name)) {
          const gone = this.#settle(name).catch((error) => {
            // A damaged sandbox stays in the list, so that a user can restore or destroy it.
            if (!isDamaged(error)) throw error
          })
          return (await gone) ? [name] : []
        }
        const [, pid, started] = /^\.[a-z2-7]{16}\.(\d+)-(\d*)$/.exec(name) ?? []
        const maker = pid === undefined ? undefined : { pid: Number(pid), started: started || undefined }
        if (name.startsWith('.') && !(await isAlive(maker)))
          await removeFolder(path.join(place, name)).catch(ignoreNotFound)
        return []
      }),
    )
    await this.#names.sweep((id) => this.#exists(id))
    await sweepLocks(this.#root)
    return removed.flat()
  }

  /** True when the sandbox was abandoned half-made or half-removed, and is now removed. */
  async #settle(sandboxId: string): Promise<boolean> {
    const record = await readRecord(this.folderOf(sandboxId))
    if (record?.leaving || (record?.status === 'creating' && !(await isAlive(record.creator))))
      return this.destroy(sandboxId)
    // `current` stops a dead sandbox. A process that was starting it may have been killed before it wrote the record.
    await this.current(sandboxId).catch(ignoreNotFound)
    await this.change(sandboxId, async (record) => {
      if (record.status === 'stopped') await this.halt(this.folderOf(sandboxId), record)
      return record
    }).catch(ignoreNotFound)
    return false
  }

  async open(
    sandboxId: string,
    { resume }: { resume: boolean },
    { signal }: CallOptions,
  ): Promise<SandboxDriver> {
    await this.prepare()
    let record = await this.current(sandboxId)
    // Still being created: wait for the creator, or clean up if it died.
    for (let waited = 1; record.status === 'creating'; waited += 1) {
      throwIfAborted(signal)
      if (!(await isAlive(record.creator))) {
        await this.destroy(sandboxId)
        throw this.notFound(sandboxId)
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(waited * 2, 50)))
      record = await this.current(sandboxId)
    }
    if (record.status === 'stopped' && resume) record = await this.start(sandboxId)
    this.#arm(sandboxId, record.expiresAt)
    return this.handle(this.folderOf(sandboxId), record)
  }

  async find(name: string): Promise<string | undefined> {
    await this.prepare()
    const sandboxId = await this.#names.find(name)
    return sandboxId !== undefined && (await this.#exists(sandboxId)) ? sandboxId : undefined
  }

  async list(filter: ListSandboxesOpts): Promise<SandboxPage> {
    await this.prepare()
    // Another process may have removed the empty root.
    const ids = await readdir(path.join(this.#root, 'sandboxes')).catch(
      (error) => ignoreNotFound(error) ?? [],
    )
    const infos = await Promise.all(
      ids
        .filter((id) => idPattern.test(id))
        .map((id) =>
          this.info(id).catch((error): SandboxInfo | undefined => {
            // An unreadable record must not hide the other sandboxes.
            if (!isDamaged(error)) return ignoreNotFound(error)
            return damagedInfo(this.name, id)
          }),
        ),
    )
    return pageOf(
      infos.filter((info) => info !== undefined),
      filter,
    )
  }

  async destroy(sandboxId: string): Promise<boolean> {
    await this.prepare()
    let record: SandboxRecord | undefined
    try {
      record = idPattern.test(sandboxId) ? await readRecord(this.folderOf(sandboxId)) : undefined
    } catch (error) {
      if (!isDamaged(error)) throw error
      await this.abandon(this.folderOf(sandboxId), sandboxId)
      return this.#clearAway(sandboxId)
    }
    if (!record) return false
    clearTimeout(this.#timers.get(sandboxId))
    this.#timers.delete(sandboxId)
    // Mark the record first, so that no handle starts anything meanwhile, and an interrupted removal is continued.
    // On a full disk the mark cannot be written, but the removal must still work.
    await this.change(sandboxId, (record) => ({ ...record, status: 'stopped', leaving: true })).catch(
      (error) => {
        if (!SandboxError.is(error, 'disk_full')) ignoreNotFound(error)
      },
    )
    await this.halt(this.folderOf(sandboxId), record)
    await this.release(this.folderOf(sandboxId), record)
    const mine = await this.#clearAway(sandboxId)
    // On a full disk the name file stays until the next sweep. The name is free, because its sandbox is gone.
    if (record.name !== undefined)
      await this.#names.release(record.name, sandboxId).catch((error) => {
        if (!SandboxError.is(error, 'disk_full')) throw error
      })
    return mine
  }

  #clearAway(sandboxId: string): Promise<boolean> {
    const trash = path.join(this.#root, 'sandboxes', `.${sandboxId}.${randomId(8)}`)
    return guarded(`The sandbox ${sandboxId} could not be removed`, async () => {
      // Of several concurrent destroys, only one rename succeeds.
      const mine = await rename(this.folderOf(sandboxId), trash).then(
        () => true,
        (error) => ignoreNotFound(error) ?? false,
      )
      if (mine) await removeFolder(trash)
      return mine
    })
  }

  async health(): Promise<boolean> {
    return this.prepare().then(
      () => true,
      () => false,
    )
  }

  /** The current record. Stops the sandbox first if its lifetime is over or it has died. */
  async current(sandboxId: string): Promise<SandboxRecord> {
    const folder = this.folderOf(sandboxId)
    const record = idPattern.test(sandboxId) ? await readRecord(folder) : undefined
    if (!record || record.leaving) throw this.notFound(sandboxId)
    if (record.status !== 'running' && record.status !== 'paused') return record
    const over = record.expiresAt !== undefined && record.expiresAt <= Date.now()
    if (over) return this.stop(sandboxId, record.incarnation)
    if (await this.lives(folder, record)) return record
    return this.stop(
      sandboxId,
      record.incarnation,
      this.#stopped.has(record.incarnation) ? {} : { crashed: true },
    )
  }

  /** Returns the record, or throws if a handle of this incarnation may not use the sandbox. */
  async check(sandboxId: string, incarnation: string): Promise<SandboxRecord> {
    const record = await this.current(sandboxId)
    if (record.incarnation === incarnation && record.status !== 'stopped') return record
    if (record.status !== 'stopped') throw this.interrupted(sandboxId)
    throw new SandboxError('not_running', `The sandbox ${sandboxId} is stopped.`, {
      provider: this.name,
      sandboxId,
    })
  }

  async info(sandboxId: string): Promise<SandboxInfo> {
    return infoOf(this.name, await this.current(sandboxId))
  }

  async stop(sandboxId: string, incarnation: string, end: { crashed?: true } = {}): Promise<SandboxRecord> {
    const stop = (record: SandboxRecord): SandboxRecord => {
      if (record.status === 'stopped') return record
      if (record.incarnation !== incarnation) throw this.interrupted(sandboxId)
      return { ...record, ...end, status: 'stopped' }
    }
    const record = await this.change(sandboxId, stop).catch(async (error) => {
      // Stopping must work on a full or read-only disk. A later access finds the sandbox dead and writes the record.
      const record = cannotWrite(error) ? await readRecord(this.folderOf(sandboxId)) : undefined
      if (!record || record.leaving) throw error
      if (!end.crashed) this.#stopped.add(incarnation)
      return stop(record)
    })
    await this.halt(this.folderOf(sandboxId), record)
    return record
  }

  async start(sandboxId: string): Promise<SandboxRecord> {
    const seen = await this.current(sandboxId)
    const undo = (started: SandboxRecord) => this.halt(this.folderOf(sandboxId), started)
    const start = async (record: SandboxRecord) => {
      const ended = seen.status === 'stopped' && seen.incarnation === record.incarnation
      if (record.status !== 'stopped' && !ended) return record
      const lifetime = record.lifetimeMs === undefined ? {} : { expiresAt: Date.now() + record.lifetimeMs }
      const { crashed: _, ...rest } = record
      const started: SandboxRecord = { ...rest, status: 'running', incarnation: randomId(), ...lifetime }
      // The process that stopped it wrote the record first, and may still be stopping it.
      await this.halt(this.folderOf(sandboxId), record)
      await this.boot(this.folderOf(sandboxId), started)
      return started
    }
    const record = await this.change(sandboxId, start, undo)
    this.#arm(sandboxId, record.expiresAt)
    return record
  }

  async extend(sandboxId: string, ms: number): Promise<void> {
    const { expiresAt } = await this.change(sandboxId, (record) => {
      if (record.expiresAt === undefined) return record
      return { ...record, expiresAt: Math.max(record.expiresAt, Date.now() + ms) }
    })
    this.#arm(sandboxId, expiresAt)
  }

  /** Gives a sandbox that was created ahead of time the labels, environment and age of a new one. */
  async handOver(sandboxId: string, to: Pick<SandboxRecord, 'labels' | 'envVars'>): Promise<void> {
    await this.change(sandboxId, (record) => ({
      ...record,
      labels: to.labels,
      envVars: to.envVars,
      createdAt: Date.now(),
    }))
  }

  async ready(sandboxId: string): Promise<void> {
    await this.change(sandboxId, (record) =>
      record.status === 'creating' ? { ...record, status: 'running' } : record,
    )
  }

  /** Creates the root on first use, and resolves its real path: confinement compares paths. */
  protected prepare(): Promise<void> {
    this.#prepared ??= guarded(`The provider’s folder ${this.#givenRoot} could not be created`, async () => {
      await mkdir(path.join(this.#givenRoot, 'sandboxes'), { recursive: true, mode: 0o700 })
      this.#root = await realpath(this.#givenRoot)
      this.#names = new Names(this.#root)
    }).catch((error) => {
      this.#prepared = undefined
      throw error
    })
    return this.#prepared
  }

  protected notFound(sandboxId: string): SandboxError {
    return new SandboxError('not_found', `The sandbox ${sandboxId} does not exist.`, {
      provider: this.name,
      sandboxId,
    })
  }

  protected interrupted(sandboxId: string): SandboxError {
    const message = `The sandbox ${sandboxId} was restarted since this handle was created.`
    return new SandboxError('interrupted', message, { provider: this.name, sandboxId })
  }

  async #exists(sandboxId: string): Promise<boolean> {
    const folder = this.folderOf(sandboxId)
    const record = idPattern.test(sandboxId)
      ? await readRecord(folder).catch((error) => {
          // A damaged sandbox also exists.
          if (isDamaged(error)) return { leaving: undefined }
          throw error
        })
      : undefined
    return record !== undefined && !record.leaving
  }

  /** Removes what this process keeps below the root. Timers and handles keep working. */
  async close(): Promise<void> {
    this.#closed = true
    removeSeal(this.#root)
  }

  /** Changes the record under the sandbox's lock. When the result cannot be written, `undo` reverts the change. */
  protected async change(
    sandboxId: string,
    change: (record: SandboxRecord) => SandboxRecord | Promise<SandboxRecord>,
    undo?: (changed: SandboxRecord) => Promise<void>,
  ): Promise<SandboxRecord> {
    const folder = this.folderOf(sandboxId)
    if (!(await this.#exists(sandboxId))) throw this.notFound(sandboxId)
    return withLock(
      path.join(folder, 'lock'),
      async () => {
        const record = await readRecord(folder)
        if (!record || record.leaving) throw this.notFound(sandboxId)
        const mended = await this.mend(folder, record)
        if (mended !== record) await writeRecord(folder, mended)
        const changed = await change(mended)
        if (changed !== mended)
          await writeRecord(folder, changed, { first: changed.leaving === true }).catch(async (error) => {
            await undo?.(changed)
            throw error
          })
        return changed
      },
      this.#closed ? undefined : this.#root,
    ).catch(async (error) => {
      // The sandbox was removed while we waited for its lock.
      throw SandboxError.is(error, 'file_not_found') && !(await this.#exists(sandboxId))
        ? this.notFound(sandboxId)
        : error
    })
  }

  /** Stops the sandbox at the end of its lifetime. The timer does not keep this process alive; `current` does the rest. */
  #arm(sandboxId: string, expiresAt: number | undefined): void {
    clearTimeout(this.#timers.get(sandboxId))
    if (expiresAt === undefined) return
    const look = () => {
      // `current` stops it if its lifetime is over. If any process extended it meanwhile, wait again.
      this.current(sandboxId).then(
        (record) => record.status !== 'stopped' && this.#arm(sandboxId, record.expiresAt),
        () => this.#timers.delete(sandboxId),
      )
    }
    const timer = setTimeout(look, Math.min(Math.max(expiresAt - Date.now(), 1), 60_000))
    timer.unref()
    this.#timers.set(sandboxId, timer)
  }
}

const idPattern = /^[a-z2-7]{16}$/

function bothOf(error: unknown, also: unknown, left: string): SandboxError {
  const [first, second] = [translate(error, 'Creating the sandbox'), translate(also, 'and cleaning up')]
  return new SandboxError(first.code, `${first.message} ${left}: ${second.message}`, {
    cause: error,
    hint: first.hints,
    details: first.details,
  })
}

function nameTaken(name: string): SandboxError {
  return new SandboxError('conflict', `A sandbox with the name “${name}” exists already.`, {
    details: { name },
  })
}

function cannotWrite(error: unknown): boolean {
  return SandboxError.is(error) && (error.code === 'disk_full' || error.details.errno === 'EROFS')
}

function ignoreNotFound(error: unknown): undefined {
  if (!SandboxError.is(error, 'not_found') && errnoOf(error) !== 'ENOENT') throw error
}
