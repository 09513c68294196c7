import { SandboxError } from '../../errors.ts'
import { randomId } from '../../shared/ids.ts'
import { translated } from './errors.ts'
import { type E2BSdk, loadSdk, type VendorAccess, type VendorInfo } from './sdk.ts'
import { isId, notFound } from './translation.ts'

export interface E2BAccess {
  readonly apiKey: string
  readonly apiUrl?: string
  readonly sandboxUrl?: string
  readonly domain?: string
  readonly requestTimeoutMs?: number
}

/** The vendor's SDK, loaded on first use, and the parameters of every call. */
export class Account {
  readonly access: E2BAccess
  readonly #given: unknown
  #sdk: Promise<E2BSdk> | undefined

  constructor(access: E2BAccess, given: unknown) {
    this.access = access
    this.#given = given
  }

  /** Makes one call. Translates its failure, and adds the request id. */
  async call<T>(
    work: (sdk: E2BSdk['Sandbox'], access: VendorAccess) => Promise<T>,
    options: { signal?: AbortSignal | undefined; sandboxId?: string; what?: string } = {},
  ): Promise<T> {
    this.#sdk ??= loadSdk(this.#given)
    const { Sandbox } = await this.#sdk.catch((error: unknown) => {
      // Allow another try after the user has installed the missing package.
      this.#sdk = undefined
      throw error
    })
    const requestId = randomId()
    const access: VendorAccess = {
      ...this.access,
      headers: { 'X-Request-Id': requestId },
      signal: options.signal,
    }
    try {
      return await work(Sandbox, access)
    } catch (error) {
      throw translated(error, { ...options, requestId })
    }
  }

  async info(sandboxId: string, signal?: AbortSignal): Promise<VendorInfo> {
    if (!isId(sandboxId)) throw notFound(sandboxId)
    try {
      return await this.call((sdk, access) => sdk.getInfo(sandboxId, access), { signal, sandboxId })
    } catch (error) {
      throw SandboxError.is(error, 'not_found') ? notFound(sandboxId) : error
    }
  }
}
