import { SandboxError } from '../../errors.ts'
import { abortable } from '../../shared/calls/abort.ts'
import { translated } from './errors.ts'
import { Proxies } from './proxies.ts'
import { loadSdk, type VendorClient, type VendorCreate, type VendorFacts } from './sdk.ts'
import { notFound, partsOf } from './translation.ts'

export interface SpritesAccess {
  readonly token: string
  readonly baseUrl: string
  readonly requestTimeoutMs: number
}

/** The vendor's SDK, loaded on first use. Times every call, and translates its failure. */
export class Account {
  readonly access: SpritesAccess
  readonly proxies = new Proxies()
  readonly #given: unknown
  #client: Promise<VendorClient> | undefined

  constructor(access: SpritesAccess, given: unknown) {
    this.access = access
    this.#given = given
  }

  create(name: string, options: VendorCreate): Promise<VendorFacts> {
    return this.call((client) => client.createSprite(name, options))
  }

  /** Undefined if the sprite does not exist. */
  async find(name: string, signal?: AbortSignal): Promise<VendorFacts | undefined> {
    try {
      const found = await this.call((client) => client.getSprite(name), { signal })
      if (found.name === name && typeof found.id === 'string') return found
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return undefined
      throw error
    }
    throw new SandboxError('provider_error', `Sprites’ description of ${name} has an invalid form.`, {
      provider: 'sprites',
    })
  }

  /** The sprite of this id. A sprite that has its name now, but another id, is a different one. */
  async existing(sandboxId: string, signal?: AbortSignal): Promise<VendorFacts> {
    const { name, id } = partsOf(sandboxId)
    const found = await this.find(name, signal)
    if (found && (id === undefined || found.id === id)) return found
    throw notFound(sandboxId)
  }

  /** All sprites with this prefix. Those of which the list has no details are read one by one. */
  async list(prefix: string, signal?: AbortSignal): Promise<VendorFacts[]> {
    const all: VendorFacts[] = []
    for (let continuationToken: string | undefined; ; ) {
      const page = { prefix, maxResults: 50, continuationToken }
      const { sprites, hasMore, nextContinuationToken } = await this.call(
        (client) => client.listSprites(page),
        { signal },
      )
      for (const facts of sprites) {
        if (typeof facts.name !== 'string' || !facts.name.startsWith(prefix)) continue
        const whole = facts.id !== undefined && facts.labels && facts.labels.length > 0
        const found = whole ? facts : await this.find(facts.name, signal)
        if (found) all.push(found)
      }
      if (!hasMore || !nextContinuationToken) return all
      continuationToken = nextContinuationToken
    }
  }

  /** False if it did not exist. */
  async destroy(sandboxId: string, signal?: AbortSignal): Promise<boolean> {
    this.proxies.close(sandboxId)
    try {
      const { name } = await this.existing(sandboxId, signal)
      return await this.delete(name, signal)
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  async delete(name: string, signal?: AbortSignal): Promise<boolean> {
    try {
      await this.call((client) => client.deleteSprite(name), { signal })
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  async client(): Promise<VendorClient> {
    this.#client ??= loadSdk(this.#given).then(({ SpritesClient }) => {
      const { token, baseUrl, requestTimeoutMs } = this.access
      // Our own timeout comes first, because its error is distinguishable.
      return new SpritesClient(token, { baseURL: baseUrl, timeout: requestTimeoutMs + 5_000 })
    })
    this.#client.catch(() => {
      // Allow another try after the user has installed the missing package.
      this.#client = undefined
    })
    return this.#client
  }

  /** The SDK cannot cancel a request. After an abort or a timeout its result is ignored. */
  async call<T>(
    work: (client: VendorClient) => Promise<T>,
    options: { signal?: AbortSignal | undefined; sandboxId?: string } = {},
  ): Promise<T> {
    const client = await this.client()
    const { requestTimeoutMs, token } = this.access
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        const message = `Sprites sent no response for ${requestTimeoutMs / 1000} s.`
        const hint = 'Try again, or raise `requestTimeoutMs` of the provider.'
        reject(new SandboxError('timeout', message, { provider: 'sprites', hint }))
      }, requestTimeoutMs)
    })
    try {
      return await abortable(Promise.race([work(client), late]), options.signal)
    } catch (error) {
      throw translated(error, { ...options, token })
    } finally {
      clearTimeout(timer)
    }
  }
}
