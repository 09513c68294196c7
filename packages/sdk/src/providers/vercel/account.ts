import { SandboxError } from '../../errors.ts'
import { translating } from './errors.ts'
import type { VercelCredentials } from './options.ts'
import type {
  Access,
  CreateParams,
  VendorSandbox,
  VendorSandboxData,
  VendorSnapshotData,
  VercelSdk,
} from './sdk.ts'
import { loadSdk } from './sdk.ts'
import { ownTag } from './translation.ts'
import type { Transport } from './transport.ts'

export type NamedParams = CreateParams & { name: string }

/** Vercel's API through the SDK. Adds the caller's credentials and our transport to every call, and translates every failure. */
export class Account {
  readonly transport: Transport
  readonly #credentials: () => Promise<VercelCredentials>
  readonly #given: unknown
  /** Snapshots that were created only for forks. */
  readonly #passing = new Set<string>()
  #sdk: Promise<VercelSdk> | undefined

  constructor(credentials: () => Promise<VercelCredentials>, transport: Transport, sdk: unknown) {
    this.#credentials = credentials
    this.transport = transport
    this.#given = sdk
  }

  create(params: CreateParams): Promise<VendorSandbox> {
    return this.#call(({ Sandbox }, access) => Sandbox.create({ ...params, ...access }))
  }

  fork(sourceSandbox: string, params: CreateParams): Promise<VendorSandbox> {
    return this.#call(({ Sandbox }, access) => Sandbox.fork({ ...params, sourceSandbox, ...access }))
  }

  get(name: string, options: { resume: boolean; signal?: AbortSignal | undefined }): Promise<VendorSandbox> {
    const { resume, signal } = options
    return this.#call(({ Sandbox }, access) => Sandbox.get({ name, resume, ...access, signal }), signal)
  }

  async find(name: string, signal?: AbortSignal): Promise<VendorSandbox | undefined> {
    return this.get(name, { resume: false, signal }).catch((error: unknown) => {
      if (SandboxError.is(error, 'not_found')) return undefined
      throw error
    })
  }

  /**
   * Removes the leftovers of a failed create or fork, so that the user does not pay for them. If the name belongs to another
   * caller's sandbox, that sandbox is kept and returned.
   */
  async unmake({ name, tags }: NamedParams): Promise<VendorSandbox | undefined> {
    const found = await this.find(name)
    if (found?.tags?.[ownTag] !== tags?.[ownTag]) return found
    await translating(found!.delete()).catch((error: unknown) => {
      if (!SandboxError.is(error, 'not_found')) throw error
    })
    return undefined
  }

  /**
   * Deletes a sandbox and the snapshots that the vendor made at every stop. The vendor deletes all snapshots of a
   * sandbox or none, so if a user requested one of them, all stay until they expire.
   */
  async delete(sandbox: VendorSandbox, signal?: AbortSignal): Promise<void> {
    // If the request fails, assume that there are some.
    const all = await this.snapshots({ name: sandbox.name, signal }).catch(() => undefined)
    const wanted = ({ id, status, creationMethod = 'manual' }: VendorSnapshotData) =>
      status === 'created' && creationMethod === 'manual' && !this.#passing.has(id)
    const deleteOrphanSnapshots = all !== undefined && !all.some(wanted)
    await translating(sandbox.delete({ deleteOrphanSnapshots, signal }), { signal })
  }

  async list(namePrefix: string, signal?: AbortSignal): Promise<VendorSandboxData[]> {
    return this.#pages(signal, async ({ Sandbox }, page) => {
      const params = {
        namePrefix,
        sortBy: 'name',
        sortOrder: 'asc',
        limit: 50,
        ...page,
      } as const
      const { sandboxes, pagination } = await Sandbox.list(params)
      return { items: sandboxes, next: pagination.next }
    })
  }

  async look(signal?: AbortSignal): Promise<void> {
    await this.#call(({ Sandbox }, access) => Sandbox.list({ limit: 1, ...access, signal }), signal)
  }

  passing(snapshotId: string): void {
    this.#passing.add(snapshotId)
  }

  /** All snapshots, or those of one sandbox. */
  async snapshots(of: { name?: string; signal?: AbortSignal | undefined }): Promise<VendorSnapshotData[]> {
    const { signal, ...filter } = of
    return this.#pages(signal, async ({ Snapshot }, page) => {
      const { snapshots, pagination } = await Snapshot.list({ ...filter, ...page })
      return { items: snapshots, next: pagination.next }
    })
  }

  /** False if the snapshot did not exist. */
  async deleteSnapshot(snapshotId: string, signal?: AbortSignal): Promise<boolean> {
    try {
      const get = { snapshotId, signal }
      const snapshot = await this.#call(({ Snapshot }, access) => Snapshot.get({ ...get, ...access }), signal)
      if (snapshot.status === 'deleted') return false
      await translating(snapshot.delete({ signal }), { signal })
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  async #pages<T>(
    signal: AbortSignal | undefined,
    read: (
      sdk: VercelSdk,
      page: Access & { cursor?: string; signal?: AbortSignal },
    ) => Promise<{ items: T[]; next: string | null }>,
  ): Promise<T[]> {
    const all: T[] = []
    let page: { cursor?: string } = {}
    for (;;) {
      const asked = { ...page, signal }
      const { items, next } = await this.#call((sdk, access) => read(sdk, { ...asked, ...access }), signal)
      all.push(...items)
      if (next === null) break
      page = { cursor: next }
    }
    return all
  }

  async #call<T>(work: (sdk: VercelSdk, access: Access) => Promise<T>, signal?: AbortSignal): Promise<T> {
    this.#sdk ??= loadSdk(this.#given)
    this.#sdk.catch(() => {
      this.#sdk = undefined
    })
    const sdk = await this.#sdk
    const { teamId, projectId } = await this.#credentials()
    const access = { token: 'set-by-the-wire', teamId, projectId, fetch: this.transport.fetch }
    return translating(work(sdk, access), { signal })
  }
}
