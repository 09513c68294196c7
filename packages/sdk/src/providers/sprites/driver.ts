import type { CreateSpec, ProviderDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { undoneOnAbort, unmade } from '../../shared/calls/undo.ts'
import { randomId } from '../../shared/ids.ts'
import { pageOf } from '../../shared/page.ts'
import { vendorName } from '../../shared/vendor-name.ts'
import type { CallOptions, CreateOption, ListSandboxesOpts, SandboxPage } from '../../spec/index.ts'
import type { Account } from './account.ts'
import { type SpritesCapabilities, spritesCapabilities } from './capabilities.ts'
import { SpritesSandbox } from './sandbox.ts'
import type { VendorCreate, VendorFacts } from './sdk.ts'
import { idOf, infoOf, isOurs, labelOf, setupSince } from './translation.ts'

/** How long a creator may take to set up a new sandbox before others stop waiting for it. */
const setupMs = 15 * 60_000

/** Options of create() that only this vendor has, under its own names. */
const vendorOptions = ['runtime', 'urlSettings', 'waitForCapacity']

export class SpritesDriver implements ProviderDriver<SpritesCapabilities> {
  readonly name = 'sprites'
  readonly isolation = 'vm'
  readonly capabilities = spritesCapabilities
  readonly createOptions: readonly CreateOption[] = [
    'name',
    'label',
    'labels',
    'envVars',
    'ports',
    'repo',
    'gitToken',
    'providerOptions',
  ]
  readonly snapshotInterrupts = false
  readonly #account: Account
  readonly #namePrefix: string

  constructor(account: Account, namePrefix: string) {
    this.#account = account
    this.#namePrefix = namePrefix
  }

  async create(spec: CreateSpec, { signal }: CallOptions): Promise<SpritesSandbox> {
    const name =
      spec.name === undefined
        ? `${this.#namePrefix}${randomId()}`
        : await vendorName(this.#namePrefix, spec.name)
    const label = labelOf(spec)
    // Do not cancel the request: only its response tells what to remove.
    const making = this.#made(name, { ...createOptions(spec), labels: [label] }, spec)
    const remove = () => this.#unmake(name, label)
    const made = await undoneOnAbort(making, remove, signal, 'Creating the sandbox')
    try {
      return await SpritesSandbox.bind(this.#account, made, { signal, envVars: spec.envVars })
    } catch (error) {
      throw await unmade(error, remove, name).then(
        () => error,
        (worse: unknown) => worse,
      )
    }
  }

  /** A sleeping sprite wakes for any command, so `resume` makes no difference. */
  async open(sandboxId: string, _: { resume: boolean }, { signal }: CallOptions): Promise<SpritesSandbox> {
    const begun = Date.now()
    for (;;) {
      const facts = await this.#account.existing(sandboxId, signal)
      const since = setupSince(facts)
      if (since === undefined) return SpritesSandbox.bind(this.#account, facts, { signal })
      if (Date.now() - Math.min(since, begun) > setupMs)
        throw new SandboxError('conflict', `The sandbox ${sandboxId} was never set up completely.`, {
          provider: this.name,
          sandboxId,
          hint: 'Its creator ended before the setup was complete. Destroy the sandbox and create it again.',
        })
      await new Promise((resolve) => setTimeout(resolve, 200))
      throwIfAborted(signal)
    }
  }

  async find(name: string, { signal }: CallOptions): Promise<string | undefined> {
    const found = await this.#account.find(await vendorName(this.#namePrefix, name), signal)
    return found && idOf(found)
  }

  async list(filter: ListSandboxesOpts, { signal }: CallOptions): Promise<SandboxPage> {
    const all = await this.#account.list(this.#namePrefix, signal)
    return pageOf(all.filter(isOurs).map(infoOf), filter)
  }

  destroy(sandboxId: string, { signal }: CallOptions): Promise<boolean> {
    return this.#account.destroy(sandboxId, signal)
  }

  async health({ signal }: CallOptions): Promise<boolean> {
    try {
      await this.#account.call((client) => client.listSprites({ maxResults: 1 }), { signal })
      return true
    } catch (error) {
      if (SandboxError.is(error, 'aborted', 'sdk_missing')) throw error
      return false
    }
  }

  /** Returns the created sprite. If the result is unknown, finds and removes it. */
  async #made(name: string, options: VendorCreate, spec: CreateSpec): Promise<VendorFacts> {
    const label = options.labels[0]!
    try {
      const made = await this.#account.create(name, options)
      // A response of another form does not prove that the sprite is ours.
      if (made.name === name && typeof made.id === 'string' && made.labels?.includes(label)) return made
      const found = await this.#account.find(name)
      if (found?.labels?.includes(label)) return found
      throw new SandboxError('provider_error', `Sprites did not confirm that it created ${name}.`, {
        provider: this.name,
      })
    } catch (error) {
      if (SandboxError.is(error, ...refusals)) throw error
      if (SandboxError.is(error, 'conflict', 'invalid_argument')) {
        // If the request arrived twice, the second one was refused.
        const found = await this.#account.find(name).catch(() => undefined)
        if (found?.labels?.includes(label)) return found
      }
      const theirs = await unmade(error, () => this.#unmake(name, label), name)
      if (theirs && spec.name !== undefined && SandboxError.is(error, 'conflict', 'invalid_argument'))
        throw new SandboxError('conflict', `A sandbox with the name “${spec.name}” exists already.`, {
          provider: this.name,
          cause: error,
        })
      throw error
    }
  }

  /** Removes the sprite of one create call. True if the name belongs to another sprite, which is kept. */
  async #unmake(name: string, label: string): Promise<boolean> {
    const found = await this.#account.find(name)
    if (found === undefined) return false
    if (!found.labels?.includes(label)) return true
    await this.#account.delete(name)
    return false
  }
}

/** After these errors nothing was created. */
const refusals = ['unauthenticated', 'forbidden', 'sdk_missing', 'rate_limited', 'quota_exceeded'] as const

function createOptions({ envVars, providerOptions = {} }: CreateSpec): Omit<VendorCreate, 'labels'> {
  const unknown = Object.keys(providerOptions).find((option) => !vendorOptions.includes(option))
  if (unknown !== undefined)
    throw new SandboxError('invalid_argument', `\`providerOptions.${unknown}\` is not known.`, {
      provider: 'sprites',
      hint: `Use one of ${vendorOptions.join(', ')}. For other options, use the names of this library.`,
    })
  return {
    // Only members of the organization reach the sprite's URL.
    urlSettings: { auth: 'sprite' },
    ...providerOptions,
    ...(Object.keys(envVars).length > 0 ? { environment: { ...envVars } } : {}),
  }
}
