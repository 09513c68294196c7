import type { CreateSpec, ProviderDriver } from '../../core/driver.ts'
import type { SecretSource } from '../../core/network/secret-values.ts'
import { SandboxError } from '../../errors.ts'
import { undoneOnAbort, unmade } from '../../shared/calls/undo.ts'
import { matches } from '../../shared/page.ts'
import { mappedRuntime } from '../../shared/runtime.ts'
import type {
  CallOptions,
  CreateOption,
  ListSandboxesOpts,
  SandboxPage,
  SandboxStatus,
  SnapshotInfo,
} from '../../spec/index.ts'
import type { Account } from './account.ts'
import { type E2BCapabilities, e2bCapabilities } from './capabilities.ts'
import { translating } from './errors.ts'
import { Incarnation, Incarnations } from './incarnation.ts'
import { networkOf } from './network.ts'
import { destroySandbox, E2BSandbox, resumeMs, type SandboxHome } from './sandbox.ts'
import type { VendorNetwork, VendorSandbox } from './sdk.ts'
import { infoOf, isId, makingLabel, metadataOf, notFound, ownMark, portsOf } from './translation.ts'

/** Options of create() that only this vendor has, under its own names. */
const vendorOptions = ['allowInternetAccess', 'iam', 'lifecycle', 'mcp', 'network', 'volumeMounts']

/** Those of them that `network` sets. */
const egressOptions = ['allowInternetAccess', 'allowOut', 'denyOut', 'rules']

export class E2BDriver implements ProviderDriver<E2BCapabilities>, SandboxHome {
  readonly name = 'e2b'
  readonly isolation = 'vm'
  readonly capabilities = e2bCapabilities
  readonly createOptions: readonly CreateOption[] = [
    'label',
    'labels',
    'envVars',
    'lifetimeMs',
    'snapshotId',
    'image',
    'runtime',
    'ports',
    'network',
    'repo',
    'gitToken',
    'providerOptions',
  ]
  /** The vendor pauses the sandbox, with its memory, and resumes it. */
  readonly snapshotInterrupts = false
  readonly account: Account
  readonly incarnations = new Incarnations()
  readonly secrets: SecretSource | undefined
  readonly #template: string
  readonly #runtimes: Readonly<Record<string, string>>

  constructor(
    account: Account,
    options: {
      readonly template: string
      readonly runtimes: Readonly<Record<string, string>>
      readonly secrets: SecretSource | undefined
    },
  ) {
    this.account = account
    this.#template = options.template
    this.#runtimes = options.runtimes
    this.secrets = options.secrets
  }

  async create(spec: CreateSpec, { signal }: CallOptions): Promise<E2BSandbox> {
    const egress = spec.network && (await networkOf(spec.network, this.secrets))
    const { template, options } = this.#createOptions(spec, egress)
    const making = this.account
      .call((sdk, access) => sdk.create(template, { ...access, ...options }))
      .catch(async (error: unknown) => {
        const making = options.metadata[makingLabel]!
        if (SandboxError.is(error, ...unsure))
          await unmade(error, () => this.#unmake(making), `metadata ${makingLabel}=${making}`)
        throw error
      })
    const what = 'Creating the sandbox'
    const sandbox = await undoneOnAbort(making, (made) => made.kill(), signal, what)
    try {
      const incarnation = this.incarnations.begin(await bound(sandbox))
      return new E2BSandbox(this, sandbox.sandboxId, incarnation, spec)
    } catch (error) {
      await sandbox.kill().catch((cleanUp: unknown) => {
        throw new AggregateError(
          [error, cleanUp],
          `The sandbox ${sandbox.sandboxId} could neither be used nor destroyed.`,
        )
      })
      throw error
    }
  }

  async open(sandboxId: string, { resume }: { resume: boolean }, call: CallOptions): Promise<E2BSandbox> {
    if (!isId(sandboxId)) throw notFound(sandboxId)
    if (!resume) {
      const info = await this.account.info(sandboxId, call.signal)
      const incarnation = info.state === 'running' ? await this.connect(sandboxId, call, 1000) : undefined
      return new E2BSandbox(this, sandboxId, incarnation, { ports: portsOf(info) })
    }
    const looking = this.account.info(sandboxId, call.signal)
    const [info, incarnation] = await Promise.all([looking, this.connect(sandboxId, call)])
    return new E2BSandbox(this, sandboxId, incarnation, { ports: portsOf(info) })
  }

  /**
   * Resumes a paused sandbox, for `timeoutMs`. A sandbox that kept running keeps its incarnation, and its lifetime if
   * that is longer.
   */
  async connect(
    sandboxId: string,
    { signal }: CallOptions,
    timeoutMs: number = resumeMs,
  ): Promise<Incarnation> {
    const known = this.incarnations.current(sandboxId)
    const sandbox = await this.account
      .call((sdk, access) => sdk.connect(sandboxId, { ...access, timeoutMs }), {
        signal,
        sandboxId,
      })
      .catch((error: unknown) => {
        throw SandboxError.is(error, 'not_found') ? notFound(sandboxId) : error
      })
    if (known && !known.over) {
      const same = await known
        .check(() => this.account.info(sandboxId, signal), { now: true })
        .then(
          () => true,
          () => false,
        )
      if (same && !known.paused) return known
      if (known.paused) {
        this.incarnations.rest.delete(sandboxId)
        known.resume()
        return known
      }
    }
    return this.incarnations.begin(await bound(sandbox, signal))
  }

  /** The vendor has no names. */
  async find(): Promise<undefined> {
    return undefined
  }

  async list(filter: ListSandboxesOpts, { signal }: CallOptions): Promise<SandboxPage> {
    const state = statesOf(filter.status)
    if (state.length === 0 || filter.name !== undefined) return []
    const { limit, cursor } = filter
    const page: SandboxPage = []
    for (let nextToken = cursor; ; ) {
      const { items, next } = await this.account.call(
        async (sdk, access) => {
          const pages = sdk.list({
            ...access,
            query: { metadata: { ...filter.labels, [ownMark]: '1' }, state },
            limit: Math.min(limit ?? 100, 100),
            nextToken,
          })
          return { items: await pages.nextItems(), next: pages.hasNext ? pages.nextToken : undefined }
        },
        { signal },
      )
      const infos = items.map((item) => infoOf(item, this.incarnations.rest.get(item.sandboxId)))
      page.push(...infos.filter((info) => matches(info, filter)))
      nextToken = next
      if (limit !== undefined && nextToken !== undefined) page.nextCursor = nextToken
      if (limit !== undefined || nextToken === undefined) return page
    }
  }

  destroy(sandboxId: string, { signal }: CallOptions): Promise<boolean> {
    return destroySandbox(this, sandboxId, signal)
  }

  async health({ signal }: CallOptions): Promise<boolean> {
    try {
      await this.account.call(
        (sdk, access) => sdk.list({ ...access, query: { metadata: {} }, limit: 1 }).nextItems(),
        { signal },
      )
      return true
    } catch (error) {
      if (SandboxError.is(error, 'sdk_missing', 'aborted')) throw error
      return false
    }
  }

  async listSnapshots({ signal }: CallOptions): Promise<SnapshotInfo[]> {
    return this.account.call(
      async (sdk, access) => {
        const all: SnapshotInfo[] = []
        const pages = sdk.listSnapshots({ ...access })
        while (pages.hasNext)
          for (const { snapshotId, names } of await pages.nextItems())
            all.push({ snapshotId, name: names[0] })
        return all
      },
      { signal },
    )
  }

  async deleteSnapshot(snapshotId: string, { signal }: CallOptions): Promise<boolean> {
    if (!isSnapshotId(snapshotId)) return false
    return this.account
      .call((sdk, access) => sdk.deleteSnapshot(snapshotId, access), { signal })
      .catch((error: unknown) => {
        if (SandboxError.is(error, 'not_found')) return false
        throw error
      })
  }

  #createOptions(spec: CreateSpec, egress: VendorNetwork | undefined) {
    const { snapshotId, runtime, providerOptions: own = {}, lifetimeMs } = spec
    const image =
      runtime === undefined ? spec.image : mappedRuntime('e2b', runtime, this.#runtimes, 'template')
    if (snapshotId !== undefined && image !== undefined)
      throw new SandboxError('invalid_argument', '`snapshotId` and `image` are both given.', {
        provider: 'e2b',
      })
    if (snapshotId !== undefined && !isSnapshotId(snapshotId))
      throw new SandboxError('not_found', `The snapshot ${snapshotId} does not exist.`, { provider: 'e2b' })
    const unknown = Object.keys(own).find((option) => !vendorOptions.includes(option))
    if (unknown !== undefined)
      throw new SandboxError('invalid_argument', `\`providerOptions.${unknown}\` is not known.`, {
        provider: 'e2b',
        hint: `Use one of ${vendorOptions.join(', ')}. For other options, use the names of this library.`,
      })
    const both = Object.keys({ ...own, ...(own.network as object | undefined) }).find((option) =>
      egressOptions.includes(option),
    )
    if (egress !== undefined && both !== undefined)
      throw new SandboxError('invalid_argument', `\`network\` and E2B’s own \`${both}\` are both given.`, {
        provider: 'e2b',
        hint: 'Use network alone.',
      })
    const { lifecycle = { onTimeout: { action: 'pause', keepMemory: false } }, network, ...rest } = own
    return {
      template: snapshotId ?? image ?? this.#template,
      options: {
        ...rest,
        // At the end of its lifetime the sandbox stops and keeps its disk.
        lifecycle,
        // Ports need the sandbox's token by default.
        network: { allowPublicTraffic: false, ...(network as object | undefined), ...egress },
        metadata: metadataOf(spec, { stops: own.lifecycle === undefined }),
        envs: { ...spec.envVars },
        timeoutMs: lifetimeMs,
      },
    }
  }

  /** Removes the sandboxes of one create call, so that the user does not pay for them. */
  async #unmake(making: string): Promise<void> {
    const left = await this.account.call(async (sdk, access) => {
      const ids: string[] = []
      const query = { metadata: { [makingLabel]: making }, state: statesOf(undefined) }
      const pages = sdk.list({ ...access, query })
      while (pages.hasNext) ids.push(...(await pages.nextItems()).map(({ sandboxId }) => sandboxId))
      return ids
    })
    for (const sandboxId of left) await this.account.call((sdk, access) => sdk.kill(sandboxId, access))
  }
}

/** Errors of a create that may still have made a sandbox, because only the response was lost. */
const unsure = ['timeout', 'connection_lost', 'unavailable', 'provider_error', 'aborted'] as const

/** Reads the working directory. This also proves that the sandbox responds. */
async function bound(sandbox: VendorSandbox, signal?: AbortSignal): Promise<Incarnation> {
  const { path } = await translating(sandbox.files.getInfo('.', { signal }), {
    signal,
    sandboxId: sandbox.sandboxId,
  })
  return new Incarnation(sandbox, path)
}

function statesOf(wanted: ListSandboxesOpts['status']): Array<'running' | 'paused'> {
  if (wanted === undefined) return ['running', 'paused']
  const list: readonly SandboxStatus[] = Array.isArray(wanted) ? wanted : [wanted as SandboxStatus]
  return [
    ...(list.includes('running') ? (['running'] as const) : []),
    ...(list.includes('paused') || list.includes('stopped') ? (['paused'] as const) : []),
  ]
}

/** Names of snapshots contain slashes and colons. Refuses names that would form another path of the vendor's API. */
function isSnapshotId(id: string): boolean {
  return (
    /^[A-Za-z0-9][\w.:/-]{0,300}$/.test(id) && !id.split('/').some((part) => part === '.' || part === '..')
  )
}
