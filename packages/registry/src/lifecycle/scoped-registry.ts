import { type CallOptions, type Network, SandboxError } from '@sandkasten/sdk'
import { throwIfAborted } from '@sandkasten/sdk/provider'
import type { Context } from '../context.ts'
import type { OperateOptions } from '../leases/index.ts'
import { checkName, suggest } from '../names.ts'
import type { ScopedRegistry } from '../registry.ts'
import { checkThreadId, type ScopeColumns, scopeColumns } from '../scope.ts'
import type { Operation, SandboxRow } from '../store/index.ts'
import type {
  CreateOptions,
  DeleteSnapshotOptions,
  DestroyResult,
  Hold,
  HoldOptions,
  InterruptingOptions,
  ListOptions,
  NamedSandbox,
  NamedSnapshot,
  OperationOptions,
  SandboxRecord,
  Scope,
  SnapshotListOptions,
} from '../types.ts'
import { create } from './create.ts'
import { withDeadline } from './deadline.ts'
import { destroy } from './destroy.ts'
import { placeOf } from './environment.ts'
import { setNetwork } from './network.ts'
import { checkProvider } from './provider-name.ts'
import { recordFor, recordsOf } from './record.ts'
import { refresh } from './refresh.ts'
import { destroyed, type Resume } from './resume.ts'
import { type Made, type Run, tell } from './run.ts'
import { snapshot } from './snapshot.ts'
import { deleteSnapshot, listSnapshots } from './snapshot-list.ts'
import { stop } from './stop.ts'

/** What the sandboxes of all scopes share in this process. */
export interface Rooms {
  readonly context: Context
  readonly resume: Resume
  readonly hold: (
    resume: (options: OperationOptions) => Promise<NamedSandbox>,
    options: HoldOptions,
  ) => Promise<Hold>
}

/** The sandboxes of one scope, by their names. */
export class ScopedSandboxes implements ScopedRegistry {
  readonly scope: Scope
  readonly #columns: ScopeColumns
  readonly #rooms: Rooms

  constructor(rooms: Rooms, scope: Scope = {}) {
    this.#columns = scopeColumns(scope)
    this.scope = Object.freeze({ ...scope })
    this.#rooms = rooms
  }

  async create(options: CreateOptions = {}): Promise<NamedSandbox> {
    return withDeadline(options, 'Creating the sandbox', async (signal) =>
      this.#named(await create(this.#context, this.#place, options, signal)),
    )
  }

  async get(name: string, options: CallOptions = {}): Promise<SandboxRecord> {
    throwIfAborted(options.signal)
    return recordFor(this.#context, await this.#row(name))
  }

  async list(options: ListOptions = {}): Promise<SandboxRecord[]> {
    const { status, provider, channel, destroyed, refresh: wanted, signal } = options
    throwIfAborted(signal)
    const wants = (row: SandboxRow) => status === undefined || [status].flat().includes(row.status)
    const filter = {
      provider,
      destroyed,
      channelId: channel ? (this.#columns.channel_id ?? undefined) : undefined,
      // A refresh may change the status.
      status: wanted || status === undefined ? undefined : [status].flat(),
    }
    const rows = await this.#context.store.sandboxes.list(this.#columns, filter)
    if (rows.length === 0 && provider !== undefined) await checkProvider(this.#context, provider)
    if (!wanted) return recordsOf(this.#context, rows)
    const timeoutMs = wanted === true ? defaultRefreshMs : wanted.timeoutMs
    const refreshed = await withDeadline({ signal }, 'The list', (signal) =>
      refresh(this.#context, rows, { timeoutMs, signal }),
    )
    const problems = new Map(refreshed.map(({ row, problem }) => [row.id, problem]))
    const shown = refreshed.map(({ row }) => row).filter((row) => (destroyed || row.live === 1) && wants(row))
    const records = await recordsOf(this.#context, shown)
    return records.map((record) => {
      const problem = problems.get(record.id)
      return problem === undefined ? record : { ...record, unreachable: true, errorMessage: problem }
    })
  }

  async resume(name: string, options: OperationOptions = {}): Promise<NamedSandbox> {
    const { onProgress } = options
    return withDeadline(options, `Starting “${name}”`, async (signal) =>
      this.#named(await this.#rooms.resume.of(await this.#row(name), { signal, onProgress })),
    )
  }

  start(name: string, options: OperationOptions = {}): Promise<NamedSandbox> {
    return this.resume(name, options)
  }

  async stop(name: string, options: InterruptingOptions = {}): Promise<SandboxRecord> {
    return this.#operate(name, 'stop', options, async (run) =>
      recordFor(this.#context, await stop(run, options)),
    )
  }

  async snapshot(
    name: string,
    options: InterruptingOptions & { snapshotName?: string } = {},
  ): Promise<{ snapshotId: string }> {
    return this.#operate(name, 'snapshot', options, (run) => snapshot(run, options))
  }

  async destroy(name: string, options: InterruptingOptions = {}): Promise<DestroyResult> {
    return this.#operate(name, 'destroy', options, (run) => destroy(run, options))
  }

  async setNetwork(name: string, network: Network, options: OperationOptions = {}): Promise<SandboxRecord> {
    return this.#operate(name, 'network', options, async (run) =>
      recordFor(this.#context, await setNetwork(run, network)),
    )
  }

  async listSnapshots(options: SnapshotListOptions = {}): Promise<NamedSnapshot[]> {
    return withDeadline(options, 'The list of snapshots', () =>
      listSnapshots(this.#context, this.#place, options),
    )
  }

  async deleteSnapshot(snapshotId: string, options: DeleteSnapshotOptions = {}): Promise<boolean> {
    return withDeadline(options, `Deleting the snapshot ${snapshotId}`, () =>
      deleteSnapshot(this.#context, this.#place, snapshotId, options),
    )
  }

  async rename(name: string, newName: string): Promise<SandboxRecord> {
    const { id } = await this.#row(name)
    const found = await this.#context.store.sandboxes.rename(id, checkName(newName), this.#context.now())
    if (!found) throw destroyed({ name })
    return this.#record(id, name)
  }

  async attach(threadId: string, name: string): Promise<SandboxRecord> {
    checkThreadId(threadId)
    const { id } = await this.#row(name)
    const { store, now } = this.#context
    if (!(await store.threads.attach(this.#columns, threadId, id, now()))) throw destroyed({ name })
    return this.#record(id, name)
  }

  async detach(threadId: string): Promise<boolean> {
    return this.#context.store.threads.detach(this.#columns, checkThreadId(threadId))
  }

  async ofThread(threadId: string): Promise<SandboxRecord | undefined> {
    const row = await this.#context.store.threads.sandboxOf(this.#columns, checkThreadId(threadId))
    return row && recordFor(this.#context, row)
  }

  async touch(name: string): Promise<void> {
    const { id } = await this.#row(name)
    await this.#context.store.sandboxes.note(id, { last_used_at: this.#context.now() })
  }

  async hold(name: string, options: HoldOptions = {}): Promise<Hold> {
    // The same sandbox, also if it is renamed meanwhile.
    const row = await this.#row(name)
    const resume = (operation: OperationOptions) =>
      withDeadline(operation, `Starting “${name}”`, async (signal) =>
        this.#named(await this.#rooms.resume.of(row, { signal, onProgress: operation.onProgress })),
      )
    return this.#rooms.hold(resume, options)
  }

  async setOpencodePassword(name: string, password: string): Promise<void> {
    if (typeof password !== 'string' || password === '')
      throw new SandboxError('invalid_argument', 'The password must be a non-empty string.')
    const { id } = await this.#row(name)
    const { store, secrets } = this.#context
    const found = await secrets.storing(async () => {
      const sealed = await secrets.seal(password, placeOf('opencode_password', id))
      return store.sandboxes.note(id, { opencode_password: sealed })
    })
    if (!found) throw destroyed({ name })
  }

  async opencodePassword(name: string): Promise<string | undefined> {
    const { id, opencode_password: sealed } = await this.#row(name)
    return sealed === null ? undefined : this.#context.secrets.open(sealed, placeOf('opencode_password', id))
  }

  async setBaseUrl(name: string, baseUrl: string | undefined): Promise<void> {
    if (baseUrl !== undefined && !/^https?:$/.test(URL.parse(baseUrl)?.protocol ?? ''))
      throw new SandboxError('invalid_argument', 'The base URL must be an http or https URL.')
    const { id } = await this.#row(name)
    if (!(await this.#context.store.sandboxes.note(id, { base_url: baseUrl ?? null })))
      throw destroyed({ name })
  }

  get #place() {
    return { given: this.scope, columns: this.#columns }
  }

  get #context(): Context {
    return this.#rooms.context
  }

  async #row(name: string): Promise<SandboxRow> {
    const { store } = this.#context
    const row = await store.sandboxes.byName(this.#columns, name)
    if (row) return row
    const near = suggest(String(name), await store.sandboxes.names(this.#columns))
    throw new SandboxError('not_found', `There is no sandbox “${name}”.`, {
      hint:
        near.length > 0
          ? `Did you mean ${near.map((other) => `“${other}”`).join(' or ')}?`
          : {
              sdk: 'List what exists with list(), or create it.',
              http: 'List the sandboxes, or create it.',
              cli: 'See sandkasten sandbox list, or create it: sandkasten sandbox create.',
            },
      details: { name, suggestions: near },
    })
  }

  async #record(id: string, name: string): Promise<SandboxRecord> {
    const row = await this.#context.store.sandboxes.byId(id)
    if (!row) throw destroyed({ name })
    return recordFor(this.#context, row)
  }

  async #named({ row, handle }: Made): Promise<NamedSandbox> {
    return { record: await recordFor(this.#context, row), handle, incarnation: row.incarnation }
  }

  /** Runs work under the lease of the sandbox. */
  async #operate<T>(
    name: string,
    operation: Operation,
    { onProgress, ...options }: OperationOptions,
    work: (run: Run) => Promise<T>,
  ): Promise<T> {
    const { id } = await this.#row(name)
    const context = this.#context
    return withDeadline(options, `${doing[operation]} “${name}”`, async (signal) => {
      const waiting: OperateOptions = {
        signal,
        onWait: (row) =>
          tell({ onProgress }, { step: 'wait', message: `waiting for another operation (${row.operation})` }),
      }
      // Without `unless`, the wait ends with the lease or an error.
      return (await context.leases.operate(
        id,
        operation,
        (lease) => work({ context, lease, onProgress }),
        waiting,
      )) as T
    })
  }
}

const defaultRefreshMs = 5_000

const doing: Record<string, string> = {
  stop: 'Stopping',
  snapshot: 'Saving',
  destroy: 'Destroying',
  network: 'Setting the network of',
}
