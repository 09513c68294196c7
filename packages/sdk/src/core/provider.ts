import { SandboxError } from '../errors.ts'
import { throwIfAborted } from '../shared/calls/abort.ts'
import { cloneCommand, redact } from '../shared/git-clone.ts'
import { nativeId } from '../shared/ids.ts'
import type {
  CallOptions,
  Capabilities,
  CreateOption,
  CreateSandboxOpts,
  GetOrCreateOpts,
  GetSandboxOpts,
  HandlePage,
  Isolation,
  ListSandboxesOpts,
  Needs,
  Offers,
  SandboxByName,
  SandboxHandle,
  SandboxPage,
  SandboxProviderCore,
  SnapshotAdmin,
  SnapshotInfo,
} from '../spec/index.ts'
import type { CreateSpec, ProviderDriver, SandboxDriver } from './driver.ts'
import { handlesOf } from './list-handles.ts'
import { checkNetwork } from './network/check.ts'
import { DriverSandbox } from './sandbox.ts'
import { unsupported } from './supports.ts'
import {
  checkCount,
  checkEnv,
  checkKnown,
  checkLabels,
  checkMs,
  checkName,
  checkPorts,
  checkResources,
  checkStatus,
  invalid,
} from './validate.ts'

/**
 * Implements the contract's provider over a driver. A provider extends this class and passes its driver to `super`.
 */
export class DriverProvider<C extends Capabilities> implements SandboxProviderCore<C>, SnapshotAdmin {
  readonly name: string
  readonly isolation: Isolation
  readonly capabilities: C
  readonly createOptions: ReadonlySet<CreateOption>
  readonly snapshotInterrupts: boolean
  readonly #driver: ProviderDriver<C>
  /** Pending getOrCreate calls by name, so that concurrent callers share one. */
  readonly #creating = new Map<string, Promise<unknown>>()

  constructor(driver: ProviderDriver<C>) {
    this.#driver = driver
    this.name = driver.name
    this.isolation = driver.isolation
    this.capabilities = driver.capabilities
    this.createOptions = new Set(driver.createOptions)
    this.snapshotInterrupts = driver.snapshotInterrupts
  }

  async create(options: CreateSandboxOpts = {}): Promise<SandboxHandle<C>> {
    checkKnown(options, createOptionNames, 'create()')
    return this.#create(options)
  }

  async get(sandbox: string | SandboxByName, options: GetSandboxOpts = {}): Promise<SandboxHandle<C>> {
    checkKnown(options, ['resume', 'signal'], 'get()')
    const { resume = true, signal } = options
    throwIfAborted(signal)
    const id =
      typeof sandbox === 'object' && sandbox !== null
        ? await this.#idOf(sandbox, signal)
        : nativeId(this.name, sandbox)
    return this.#handle(await this.#driver.open(id, { resume }, { signal }))
  }

  async getOrCreate(options: GetOrCreateOpts<C>): Promise<SandboxHandle<C>> {
    checkKnown(options, [...createOptionNames, 'onCreate', 'onResume'], 'getOrCreate()')
    const name = checkName(options.name)
    // One at a time per name: the second caller finds the sandbox of the first.
    for (let earlier = this.#creating.get(name); earlier; earlier = this.#creating.get(name))
      await earlier.catch(() => {})
    const turn = this.#findOrCreate(name, options)
    this.#creating.set(name, turn)
    try {
      return await turn
    } finally {
      this.#creating.delete(name)
    }
  }

  async list(options: ListSandboxesOpts = {}): Promise<SandboxPage> {
    checkKnown(options, ['labels', 'status', 'name', 'limit', 'cursor', 'signal'], 'list()')
    if (options.limit !== undefined) checkCount(options.limit, 'limit', 1000)
    if (options.status !== undefined) checkStatus(options.status)
    const { signal, ...filter } = { ...options, labels: checkLabels(options.labels) }
    throwIfAborted(signal)
    return this.#driver.list(filter, { signal })
  }

  async listHandles(options: ListSandboxesOpts = {}): Promise<HandlePage<C>> {
    const page = await this.list(options)
    const { signal } = options
    return handlesOf(page, async ({ sandboxId }) =>
      this.#handle(await this.#driver.open(sandboxId, { resume: false }, { signal })),
    )
  }

  async destroy(sandboxId: string, options: CallOptions = {}): Promise<boolean> {
    const id = nativeId(this.name, sandboxId)
    throwIfAborted(options.signal)
    return this.#driver.destroy(id, options)
  }

  async healthCheck(options: CallOptions = {}): Promise<boolean> {
    throwIfAborted(options.signal)
    return this.#driver.health(options)
  }

  async listSnapshots(this: SnapshotOwner<C>, options: CallOptions = {}): Promise<SnapshotInfo[]> {
    if (!this.capabilities.snapshot || !this.#driver.listSnapshots)
      throw unsupported({ provider: this.name }, 'snapshot')
    throwIfAborted(options.signal)
    return this.#driver.listSnapshots(options)
  }

  async deleteSnapshot(
    this: SnapshotOwner<C>,
    snapshotId: string,
    options: CallOptions = {},
  ): Promise<boolean> {
    if (!this.capabilities.snapshot || !this.#driver.deleteSnapshot)
      throw unsupported({ provider: this.name }, 'snapshot')
    if (typeof snapshotId !== 'string' || snapshotId === '')
      throw invalid('`snapshotId` must be a non-empty string.')
    throwIfAborted(options.signal)
    return this.#driver.deleteSnapshot(snapshotId, options)
  }

  async #idOf(sandbox: SandboxByName, signal: AbortSignal | undefined): Promise<string> {
    checkKnown(sandbox, ['name'], 'The first argument of get()')
    const name = checkName(sandbox.name)
    if (!this.createOptions.has('name'))
      throw new SandboxError('unsupported', `Sandboxes of the provider “${this.name}” have no names.`, {
        provider: this.name,
        details: { option: 'name' },
        hint: 'Use the id, or find the sandbox by its labels with list({ labels }).',
      })
    const id = await this.#driver.find(name, { signal })
    if (id !== undefined) return id
    throw new SandboxError('not_found', `There is no sandbox with the name “${name}”.`, {
      provider: this.name,
      details: { name },
      hint: 'getOrCreate() creates it if it does not exist.',
    })
  }

  async #findOrCreate(
    name: string,
    { onCreate, onResume, ...create }: GetOrCreateOpts<C>,
  ): Promise<SandboxHandle<C>> {
    const { signal } = create
    for (let attempt = 0; ; attempt += 1) {
      throwIfAborted(signal)
      const found = await this.#driver.find(name, { signal })
      try {
        if (found === undefined) return await this.#create(create, async (sandbox) => onCreate?.(sandbox))
        const sandbox = this.#handle(await this.#driver.open(found, { resume: true }, { signal }))
        await onResume?.(sandbox)
        return sandbox
      } catch (error) {
        // Another caller created or destroyed it between our lookup and our action: retry.
        const raced =
          found === undefined ? SandboxError.is(error, 'conflict') : SandboxError.is(error, 'not_found')
        if (!raced || attempt >= 10) throw error
      }
    }
  }

  /** Creates, clones and runs `onCreate`. Removes the sandbox if a step fails. */
  async #create(
    options: CreateSandboxOpts,
    onCreate?: (sandbox: SandboxHandle<C>) => Promise<void>,
  ): Promise<SandboxHandle<C>> {
    const spec = this.#createSpec(options, onCreate !== undefined || options.repo !== undefined)
    const call = { signal: options.signal }
    throwIfAborted(call.signal, 'Creating the sandbox')
    const driver = await this.#driver.create(spec, call)
    try {
      throwIfAborted(call.signal, 'Creating the sandbox')
      const sandbox = this.#handle(driver)
      if (spec.repo !== undefined) await this.#clone(sandbox, spec.repo, spec.gitToken, call)
      await onCreate?.(sandbox)
      if (spec.deferReady) await driver.ready?.(call)
      return sandbox
    } catch (error) {
      await driver.destroy({}).catch((cleanUp) => {
        throw new AggregateError(
          [error, cleanUp],
          `Creating the sandbox failed, and so did removing it: ${driver.sandboxId} still exists.`,
        )
      })
      throw error
    }
  }

  async #clone(
    sandbox: SandboxHandle<C>,
    url: string,
    token: string | undefined,
    { signal }: CallOptions,
  ): Promise<void> {
    const result = await sandbox.runCommand({ ...cloneCommand({ url, token, target: '.' }), signal })
    if (result.exitCode === 0) return
    throw new SandboxError(
      'provider_error',
      `git could not clone ${url}: ${redact(result.stderr, token).trim().slice(-500)}`,
      {
        provider: this.name,
        hint: 'Check the address, and for a private repository pass gitToken.',
      },
    )
  }

  #handle(driver: SandboxDriver): SandboxHandle<C> {
    return new DriverSandbox(driver, { provider: this.name, capabilities: this.capabilities })
  }

  #createSpec(options: CreateSandboxOpts, deferReady: boolean): CreateSpec {
    const { signal: _, timeout, lifetimeMs = timeout, ...rest } = options
    if (timeout !== undefined && options.lifetimeMs !== undefined && timeout !== options.lifetimeMs) {
      throw invalid(
        '`timeout` and `lifetimeMs` are the same option, but have different values.',
        'Use lifetimeMs.',
      )
    }
    const given = { ...rest, lifetimeMs }
    for (const [option, value] of Object.entries(given)) {
      if (value === undefined || this.createOptions.has(option as CreateOption)) continue
      throw new SandboxError(
        'unsupported',
        `The provider “${this.name}” does not support the option \`${option}\` of create().`,
        {
          provider: this.name,
          details: { option },
          hint: `Omit ${option}, or choose a provider that supports it. This one supports: ${[...this.createOptions].join(', ')}.`,
        },
      )
    }
    if (given.name !== undefined) checkName(given.name)
    if (lifetimeMs !== undefined) checkMs(lifetimeMs, 'lifetimeMs')
    const ports = given.ports === undefined ? undefined : checkPorts(given.ports)
    const network =
      given.network === undefined
        ? undefined
        : checkNetwork(given.network, { provider: this.name, capabilities: this.capabilities })
    if (given.resources !== undefined) checkResources(given.resources)
    if (given.user !== undefined && given.user !== 'root')
      throw invalid(`\`user\` is ${String(given.user)}.`, 'Use root, or omit it.')
    if (
      given.providerOptions !== undefined &&
      (typeof given.providerOptions !== 'object' || given.providerOptions === null)
    ) {
      throw invalid('`providerOptions` must be an object.')
    }
    if (given.gitToken !== undefined && given.repo === undefined) throw invalid('`gitToken` requires `repo`.')
    for (const option of ['repo', 'gitToken', 'snapshotId', 'image', 'runtime', 'label'] as const) {
      const value = given[option]
      if (value !== undefined && (typeof value !== 'string' || value === ''))
        throw invalid(`\`${option}\` must be a non-empty string.`)
    }
    const other = (['image', 'snapshotId'] as const).find((option) => given[option] !== undefined)
    if (given.runtime !== undefined && other !== undefined)
      throw invalid(
        `\`runtime\` and \`${other}\` are both given.`,
        'Both select the programs. Pass one of them.',
      )
    if (given.repo !== undefined) cloneCommand({ url: given.repo, token: given.gitToken, target: '.' })
    return {
      ...given,
      ports,
      network,
      labels: checkLabels(given.labels),
      envVars: checkEnv(given.envVars, 'envVars'),
      deferReady,
    }
  }
}

/** Makes the methods of the ability `snapshot` callable only on a provider that may have it. */
type SnapshotOwner<C extends Capabilities> =
  Offers<C, 'snapshot'> extends true ? DriverProvider<C> : DriverProvider<C> & Needs<'snapshot'>

const createOptionNames = [
  'name',
  'label',
  'labels',
  'envVars',
  'lifetimeMs',
  'timeout',
  'snapshotId',
  'image',
  'runtime',
  'ports',
  'resources',
  'user',
  'network',
  'repo',
  'gitToken',
  'providerOptions',
  'signal',
] satisfies Array<keyof CreateSandboxOpts>
