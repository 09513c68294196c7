import type { CreateSpec, ProviderDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { undoneOnAbort, unmade } from '../../shared/calls/undo.ts'
import { randomId } from '../../shared/ids.ts'
import { pageOf } from '../../shared/page.ts'
import { noRuntime } from '../../shared/runtime.ts'
import { vendorName } from '../../shared/vendor-name.ts'
import type {
  CallOptions,
  CreateOption,
  ListSandboxesOpts,
  SandboxPage,
  SnapshotInfo,
} from '../../spec/index.ts'
import type { NamedParams } from './account.ts'
import { type VercelCapabilities, vercelCapabilities } from './capabilities.ts'
import { networkPolicyOf } from './network.ts'
import { type SandboxPlace, VercelSandbox } from './sandbox.ts'
import type { CreateParams, VendorSandbox } from './sdk.ts'
import { idOf, infoOf, isOurs, notFound, partsOf, setupSince, tagsOf } from './translation.ts'

/** How long a creator may take to set up a new sandbox before others stop waiting for it. */
const setupMs = 15 * 60_000
/** How long a status change may take. */
const betweenMs = 5 * 60_000
const memoryPerCpuMb = 2048
/** Those that the vendor documents. It decides about others of the same form. */
const runtimes = ['node26', 'node24', 'node22', 'python3.13']

/** Options of create() that only this vendor has, under its own names. */
const vendorOptions = [
  'networkPolicy',
  'persistent',
  'region',
  'failoverRegions',
  'snapshotExpiration',
  'keepLastSnapshots',
  'mounts',
  'networkId',
]

export class VercelDriver implements ProviderDriver<VercelCapabilities> {
  readonly name = 'vercel'
  readonly isolation = 'vm'
  readonly capabilities = vercelCapabilities
  readonly createOptions: readonly CreateOption[] = [
    'name',
    'label',
    'labels',
    'envVars',
    'lifetimeMs',
    'snapshotId',
    'image',
    'runtime',
    'ports',
    'resources',
    'network',
    'repo',
    'gitToken',
    'providerOptions',
  ]
  /** Vercel stops a sandbox to save it, and a fork begins with a snapshot. */
  readonly snapshotInterrupts = true
  readonly #place: SandboxPlace

  constructor(place: SandboxPlace) {
    this.#place = place
  }

  async create(spec: CreateSpec, { signal }: CallOptions): Promise<VercelSandbox> {
    const { namePrefix, account } = this.#place
    const name =
      spec.name === undefined ? `${namePrefix}${randomId()}` : await vendorName(namePrefix, spec.name)
    const networkPolicy = spec.network && (await networkPolicyOf(spec.network, this.#place.secrets))
    const params = { ...createParams(spec), ...(networkPolicy ? { networkPolicy } : {}), name }
    // Do not cancel the request: only its response tells what to remove.
    const creating = this.#made(params, account.create(params), spec)
    const made = await undoneOnAbort(creating, (sandbox) => sandbox.delete(), signal, 'Creating the sandbox')
    return new VercelSandbox(this.#place, made, spec.network)
  }

  async open(
    sandboxId: string,
    { resume }: { resume: boolean },
    { signal }: CallOptions,
  ): Promise<VercelSandbox> {
    const settled = await this.#settled(sandboxId, signal)
    if (!resume || settled.status === 'running') return new VercelSandbox(this.#place, settled)
    return new VercelSandbox(
      this.#place,
      await this.#place.account.get(settled.name, { resume: true, signal }),
    )
  }

  async find(name: string, { signal }: CallOptions): Promise<string | undefined> {
    const { namePrefix, account } = this.#place
    const found = await account.find(await vendorName(namePrefix, name), signal)
    return found && idOf(found.name, found.createdAt.getTime())
  }

  async list(filter: ListSandboxesOpts, { signal }: CallOptions): Promise<SandboxPage> {
    const all = await this.#place.account.list(this.#place.namePrefix, signal)
    return pageOf(all.filter(isOurs).map(infoOf), filter)
  }

  async destroy(sandboxId: string, { signal }: CallOptions): Promise<boolean> {
    try {
      await this.#place.account.delete(await this.#existing(sandboxId, signal), signal)
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  async health({ signal }: CallOptions): Promise<boolean> {
    try {
      await this.#place.account.look(signal)
      return true
    } catch (error) {
      if (SandboxError.is(error, 'aborted', 'sdk_missing')) throw error
      return false
    }
  }

  async listSnapshots({ signal }: CallOptions): Promise<SnapshotInfo[]> {
    const all = await this.#place.account.snapshots({ signal })
    return all
      .filter(({ status }) => status === 'created')
      .map(({ id, sizeBytes, createdAt }) => ({ snapshotId: id, sizeBytes, createdAt: new Date(createdAt) }))
  }

  deleteSnapshot(snapshotId: string, { signal }: CallOptions): Promise<boolean> {
    return this.#place.account.deleteSnapshot(snapshotId, signal)
  }

  async #existing(sandboxId: string, signal: AbortSignal | undefined): Promise<VendorSandbox> {
    const { name, createdAt } = partsOf(sandboxId)
    const sandbox = await this.#place.account.find(name, signal)
    if (sandbox && (createdAt === undefined || sandbox.createdAt.getTime() === createdAt)) return sandbox
    throw notFound(sandboxId)
  }

  /** The sandbox, after its creator has finished and it is neither starting nor stopping. */
  async #settled(sandboxId: string, signal: AbortSignal | undefined): Promise<VendorSandbox> {
    const begun = Date.now()
    for (;;) {
      const sandbox = await this.#existing(sandboxId, signal)
      const since = setupSince(sandbox.tags)
      if (since === undefined && !between.has(sandbox.status)) return sandbox
      if (since !== undefined && Date.now() - since > setupMs)
        throw new SandboxError('conflict', `The sandbox ${sandboxId} was never set up completely.`, {
          provider: this.name,
          sandboxId,
          hint: 'Its creator ended before the setup was complete. Destroy the sandbox and create it again.',
        })
      if (since === undefined && Date.now() - begun > betweenMs)
        throw new SandboxError(
          'timeout',
          `The sandbox ${sandboxId} has been ${sandbox.status} for too long.`,
          {
            provider: this.name,
            sandboxId,
          },
        )
      await new Promise((resolve) => setTimeout(resolve, 200))
      throwIfAborted(signal)
    }
  }

  /** Returns the created sandbox. If the result is unknown, finds and removes it. */
  async #made(params: NamedParams, creating: Promise<VendorSandbox>, spec: CreateSpec) {
    try {
      return await creating
    } catch (error) {
      const refused = SandboxError.is(
        error,
        'unauthenticated',
        'forbidden',
        'sdk_missing',
        'rate_limited',
        'quota_exceeded',
      )
      if (refused) throw error
      const theirs = await unmade(error, () => this.#place.account.unmake(params), params.name)
      if (theirs && spec.name !== undefined && SandboxError.is(error, 'conflict', 'invalid_argument'))
        throw new SandboxError('conflict', `A sandbox with the name “${spec.name}” exists already.`, {
          provider: this.name,
          cause: error,
          requestId: error.requestId,
        })
      throw unknownRuntime(error, spec) ?? error
    }
  }
}

const between = new Set(['pending', 'stopping', 'snapshotting'])

function createParams(spec: CreateSpec): CreateParams {
  const { image, runtime, snapshotId, lifetimeMs, ports, resources, providerOptions, envVars } = spec
  if (runtime !== undefined && !/^[a-z]+\d+(\.\d+)*$/.test(runtime))
    throw noRuntime('vercel', runtime, runtimes)
  if (snapshotId !== undefined && image !== undefined)
    throw invalid('`snapshotId` and an image are both given.', 'Use snapshotId alone.')
  for (const option of Object.keys(providerOptions ?? {}))
    if (!vendorOptions.includes(option))
      throw invalid(`\`providerOptions.${option}\` is not known.`, `Use one of ${vendorOptions.join(', ')}.`)
  if (spec.network !== undefined && providerOptions?.networkPolicy !== undefined)
    throw invalid('`network` and `providerOptions.networkPolicy` are both given.', 'Use network alone.')
  const vcpus = vcpusOf(resources)
  return {
    tags: tagsOf(spec, spec.deferReady),
    env: { ...envVars },
    timeout: lifetimeMs,
    ports: ports && [...new Set(ports)],
    image,
    runtime,
    source: snapshotId === undefined ? undefined : { type: 'snapshot', snapshotId },
    resources: vcpus === undefined ? undefined : { vcpus },
    ...providerOptions,
  }
}

/** The vendor may add runtimes, so it decides about unknown ones. Its refusal does not say which ones it has. */
function unknownRuntime(error: unknown, { runtime }: CreateSpec): SandboxError | undefined {
  if (runtime === undefined || runtimes.includes(runtime)) return undefined
  if (!SandboxError.is(error, 'invalid_argument', 'unsupported', 'not_found')) return undefined
  return noRuntime('vercel', runtime, runtimes, error.message, error)
}

/** The vendor offers processors with a fixed amount of memory each, and a fixed disk. */
function vcpusOf(resources: CreateSpec['resources']): number | undefined {
  if (!resources) return undefined
  const { vcpus, memoryMb, diskMb } = resources
  if (diskMb !== undefined) throw unsupportedResource('diskMb', 'the size of the disk')
  if (memoryMb === undefined || memoryMb === (vcpus ?? memoryMb / memoryPerCpuMb) * memoryPerCpuMb)
    return vcpus ?? (memoryMb === undefined ? undefined : memoryMb / memoryPerCpuMb)
  throw unsupportedResource('memoryMb', `any memory but ${memoryPerCpuMb} MB for each processor`)
}

function unsupportedResource(option: string, what: string): SandboxError {
  return new SandboxError('unsupported', `Vercel does not let its users choose ${what}.`, {
    provider: 'vercel',
    details: { option: `resources.${option}` },
    hint: `Leave resources.${option} out.`,
  })
}

function invalid(message: string, hint: string): SandboxError {
  return new SandboxError('invalid_argument', message, { provider: 'vercel', hint })
}
