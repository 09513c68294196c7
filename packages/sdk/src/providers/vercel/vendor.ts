import { SandboxError } from '../../errors.ts'
import { translating } from './errors.ts'
import type {
  Access,
  CreateParams,
  VendorSandbox,
  VendorSandboxData,
  VendorSnapshotData,
  VercelSdk,
} from './sdk.ts'
import { loadSdk } from './sdk.ts'
import type { Wire } from './wire.ts'

/** The vendor's account, by the SDK: every call with the caller's credentials and our wire, every failure one of ours. */
export class Vendor {
  readonly wire: Wire
  readonly #access: Access
  readonly #given: unknown
  #sdk: Promise<VercelSdk> | undefined

  constructor(access: Access, wire: Wire, sdk: unknown) {
    this.#access = access
    this.wire = wire
    this.#given = sdk
  }

  create(params: CreateParams): Promise<VendorSandbox> {
    return this.#call(({ Sandbox }) => Sandbox.create({ ...params, ...this.#access }))
  }

  fork(sourceSandbox: string, params: CreateParams): Promise<VendorSandbox> {
    return this.#call(({ Sandbox }) => Sandbox.fork({ ...params, sourceSandbox, ...this.#access }))
  }

  get(name: string, options: { resume: boolean; signal?: AbortSignal | undefined }): Promise<VendorSandbox> {
    const { resume, signal } = options
    return this.#call(
      ({ Sandbox }) => Sandbox.get({ name, resume, ...this.#access, ...(signal ? { signal } : {}) }),
      signal,
    )
  }

  /** Undefined when there is none of that name. */
  async find(name: string, signal?: AbortSignal): Promise<VendorSandbox | undefined> {
    return this.get(name, { resume: false, signal }).catch((error: unknown) => {
      if (SandboxError.is(error, 'not_found')) return undefined
      throw error
    })
  }

  async list(namePrefix: string, signal?: AbortSignal): Promise<VendorSandboxData[]> {
    return this.#pages(signal, async ({ Sandbox }, page) => {
      const params = {
        namePrefix,
        sortBy: 'name',
        sortOrder: 'asc',
        limit: 50,
        ...page,
        ...this.#access,
      } as const
      const { sandboxes, pagination } = await Sandbox.list(params)
      return { items: sandboxes, next: pagination.next }
    })
  }

  /** Whether the credentials open anything. */
  async look(signal?: AbortSignal): Promise<void> {
    await this.#call(
      ({ Sandbox }) => Sandbox.list({ limit: 1, ...this.#access, ...(signal ? { signal } : {}) }),
      signal,
    )
  }

  async snapshots(signal?: AbortSignal): Promise<VendorSnapshotData[]> {
    return this.#pages(signal, async ({ Snapshot }, page) => {
      const { snapshots, pagination } = await Snapshot.list({ ...page, ...this.#access })
      return { items: snapshots, next: pagination.next }
    })
  }

  /** False when it was gone already. */
  async deleteSnapshot(snapshotId: string, signal?: AbortSignal): Promise<boolean> {
    try {
      const access = { ...this.#access, ...(signal ? { signal } : {}) }
      const snapshot = await this.#call(({ Snapshot }) => Snapshot.get({ snapshotId, ...access }), signal)
      if (snapshot.status === 'deleted') return false
      await translating(snapshot.delete(signal ? { signal } : {}), { signal })
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
      page: { cursor?: string; signal?: AbortSignal },
    ) => Promise<{ items: T[]; next: string | null }>,
  ): Promise<T[]> {
    const all: T[] = []
    let page: { cursor?: string } = {}
    for (;;) {
      const asked = { ...page, ...(signal ? { signal } : {}) }
      const { items, next } = await this.#call((sdk) => read(sdk, asked), signal)
      all.push(...items)
      if (next === null) break
      page = { cursor: next }
    }
    return all
  }

  async #call<T>(work: (sdk: VercelSdk) => Promise<T>, signal?: AbortSignal): Promise<T> {
    this.#sdk ??= loadSdk(this.#given)
    this.#sdk.catch(() => {
      this.#sdk = undefined
    })
    const sdk = await this.#sdk
    return translating(work(sdk), { signal })
  }
}
