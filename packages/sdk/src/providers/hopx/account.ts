import { SandboxError } from '../../errors.ts'
import type { CallOptions } from '../../spec/index.ts'
import { garbled } from './errors.ts'
import type { HopxAccess } from './options.ts'
import type { HopxClient } from './sdk.ts'
import { isId, notFound, type VendorSandbox, vendorSandbox } from './translation.ts'
import type { Method, Transport, TransportCall } from './transport.ts'

export interface Token {
  readonly value: string
  readonly expiresAt: number
}

/** The control plane: calls with the API key. */
export class Account {
  readonly transport: Transport
  readonly access: HopxAccess
  #client: Promise<HopxClient> | undefined

  constructor(access: HopxAccess, transport: Transport) {
    this.access = access
    this.transport = transport
  }

  async create(body: Readonly<Record<string, unknown>>): Promise<VendorSandbox & { token?: Token }> {
    const what = 'Creating the sandbox'
    const given = await this.#call('post', '/v1/sandboxes', { what, body })
    const sandbox = vendorSandbox(given)
    if (!sandbox) throw garbled({ what })
    const token = tokenOf(given)
    return token ? { ...sandbox, token } : sandbox
  }

  async info(sandboxId: string, { signal }: CallOptions): Promise<VendorSandbox> {
    const what = 'Reading the state of the sandbox'
    const given = await this.#one('get', sandboxId, '', { what, signal })
    const sandbox = vendorSandbox(given)
    if (sandbox?.id !== sandboxId) throw garbled({ what, sandboxId })
    return sandbox
  }

  async list({ signal }: CallOptions, most = Infinity): Promise<VendorSandbox[]> {
    const what = 'Listing sandboxes'
    const all: VendorSandbox[] = []
    let cursor: string | undefined
    for (let page = 0; page < mostPages && all.length < most; page += 1) {
      const query = new URLSearchParams({
        limit: String(Math.min(most, 100)),
        ...(cursor === undefined ? {} : { cursor }),
      })
      const given = await this.#call('get', `/v1/sandboxes?${query}`, { what, signal })
      const { data, has_more: more, next_cursor: next } = given
      if (!Array.isArray(data)) throw garbled({ what })
      all.push(...data.flatMap((one) => vendorSandbox(one) ?? []))
      if (more !== true || typeof next !== 'string' || next === cursor) return all
      cursor = next
    }
    return all
  }

  /** Returns false if it does not exist. */
  async remove(sandboxId: string, { signal }: CallOptions): Promise<boolean> {
    if (!isId(sandboxId)) return false
    try {
      await this.#one('delete', sandboxId, '', { what: 'Destroying the sandbox', signal })
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      if (SandboxError.is(error, 'not_running') && error.details.status === 410) return false
      throw error
    }
  }

  async pause(sandboxId: string, { signal }: CallOptions): Promise<void> {
    await this.#one('post', sandboxId, '/pause', { what: 'Pausing the sandbox', signal })
  }

  async resume(sandboxId: string, { signal }: CallOptions): Promise<void> {
    await this.#one('post', sandboxId, '/resume', { what: 'Resuming the sandbox', signal })
  }

  async setTimeout(sandboxId: string, seconds: number, { signal }: CallOptions): Promise<void> {
    const body = { timeout_seconds: seconds }
    await this.#one('put', sandboxId, '/timeout', { what: 'Extending the lifetime', body, signal })
  }

  async token(sandboxId: string, { signal }: CallOptions): Promise<Token> {
    const what = 'Asking for access to the sandbox'
    const token = tokenOf(await this.#one('post', sandboxId, '/token/refresh', { what, signal }))
    if (!token) throw garbled({ what, sandboxId })
    return token
  }

  async #one(method: Method, sandboxId: string, path: string, call: TransportCall) {
    // Any other text could form another path of the vendor's API.
    if (!isId(sandboxId)) throw notFound(sandboxId)
    try {
      return await this.#call(method, `/v1/sandboxes/${sandboxId}${path}`, { ...call, sandboxId })
    } catch (error) {
      throw SandboxError.is(error, 'not_found') ? notFound(sandboxId, error) : error
    }
  }

  async #call(method: Method, path: string, call: TransportCall) {
    const { apiUrl: baseURL, apiKey } = this.access
    this.#client ??= this.transport.client({ baseURL, apiKey })
    const client = await this.#client.catch((error: unknown) => {
      this.#client = undefined
      throw error
    })
    return this.transport.json(client, method, path, { ...call, secret: apiKey })
  }
}

/** At 100 sandboxes each. */
const mostPages = 100

function tokenOf({ auth_token, token_expires_at }: Readonly<Record<string, unknown>>): Token | undefined {
  if (typeof auth_token !== 'string' || !/^[\x21-\x7e]{1,8192}$/.test(auth_token)) return undefined
  const expiresAt = typeof token_expires_at === 'string' ? Date.parse(token_expires_at) : Number.NaN
  return { value: auth_token, expiresAt: Number.isNaN(expiresAt) ? Infinity : expiresAt }
}
