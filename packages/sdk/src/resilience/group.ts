import { unsupported } from '../core/supports.ts'
import { invalid } from '../core/validate.ts'
import { SandboxError } from '../errors.ts'
import { throwIfAborted } from '../shared/calls/abort.ts'
import { checkObject } from '../shared/known-options.ts'
import type {
  Ability,
  AbilityLevel,
  CallOptions,
  Capabilities,
  CreateOption,
  CreateSandboxOpts,
  GetOrCreateOpts,
  GetSandboxOpts,
  HandlePage,
  Isolation,
  ListSandboxesOpts,
  SandboxByName,
  SandboxHandle,
  SandboxPage,
  SandboxProvider,
  SnapshotInfo,
} from '../spec/index.ts'
import { Choice, type ChoiceOptions, type Make } from './choose-provider.ts'
import type { Failover, FailoverOptions } from './failover.ts'
import { FailoverAccount, type FailoverAttempt, failed, reasonOf } from './failover-account.ts'
import { type Leftover, Leftovers } from './leftovers.ts'

export interface GroupOptions extends ChoiceOptions {
  readonly onLeftover: FailoverOptions['onLeftover'] | undefined
  readonly acceptDuplicateNames: boolean
}

/** Combines providers. Keeps no list of sandboxes: ids tell where they are, and names are looked up. */
export class Group implements SandboxProvider, Failover {
  readonly name: string
  readonly capabilities: Capabilities
  readonly isolation: Isolation
  readonly createOptions: ReadonlySet<CreateOption>
  readonly snapshotInterrupts: boolean
  readonly #members: readonly SandboxProvider[]
  readonly #options: GroupOptions
  readonly #leftovers: Leftovers
  readonly #choice: Choice
  /** Pending getOrCreate calls by name: the second caller finds the sandbox of the first, at any provider. */
  readonly #creating = new Map<string, Promise<unknown>>()

  constructor(members: readonly SandboxProvider[], options: GroupOptions) {
    this.#members = members
    this.#options = options
    this.#leftovers = new Leftovers(options.clock, options.onLeftover)
    this.#choice = new Choice(members, options, this.#leftovers)
    const names = new Set(members.map(({ name }) => name))
    this.name = names.size === 1 ? members[0]!.name : 'failover'
    this.capabilities = sharedAbilities(members)
    this.isolation = weakest.find((level) => members.some(({ isolation }) => isolation === level)) ?? 'none'
    this.snapshotInterrupts = members.some(({ snapshotInterrupts }) => snapshotInterrupts)
    const [first, ...others] = members.map(({ createOptions }) => createOptions)
    this.createOptions = new Set(
      [...first!].filter((option) => others.every((options) => options.has(option))),
    )
  }

  explain(subject: object): FailoverAccount | undefined {
    return this.#choice.explain(subject)
  }

  sweep(options: CallOptions = {}): Promise<Leftover[]> {
    return this.#leftovers.sweep(options)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#leftovers.close()
  }

  async create(options: CreateSandboxOpts = {}): Promise<SandboxHandle> {
    this.#checkOptions(options)
    const make: Make = (member, adapted) => member.create(adapted)
    // A snapshot exists at one provider; the others do not know it, which is not a failure.
    return this.#choice.firstThatCan(options, make, {
      passesOver: options.snapshotId === undefined ? [] : ['not_found'],
    })
  }

  async getOrCreate(options: GetOrCreateOpts): Promise<SandboxHandle> {
    this.#checkOptions(options)
    const { name } = options
    if (typeof name !== 'string') return this.#members[0]!.getOrCreate(options)
    for (let earlier = this.#creating.get(name); earlier; earlier = this.#creating.get(name))
      await earlier.catch(() => {})
    const turn = this.#findOrCreate(options)
    this.#creating.set(name, turn)
    try {
      return await turn
    } finally {
      this.#creating.delete(name)
    }
  }

  async get(sandbox: string | SandboxByName, options: GetSandboxOpts = {}): Promise<SandboxHandle> {
    return this.#search(this.#ownersOf(sandbox), (member) => member.get(sandbox, options))
  }

  async destroy(sandboxId: string, options: CallOptions = {}): Promise<boolean> {
    return this.#anyOf(this.#ownersOf(sandboxId), (member) => member.destroy(sandboxId, options))
  }

  async list(options: ListSandboxesOpts = {}): Promise<SandboxPage> {
    return this.#pageOf(options, (member, filter) => member.list(filter))
  }

  async listHandles(options: ListSandboxesOpts = {}): Promise<HandlePage<Capabilities>> {
    return this.#pageOf(options, (member, filter) => member.listHandles(filter))
  }

  async healthCheck(options: CallOptions = {}): Promise<boolean> {
    for (const member of this.#members) {
      throwIfAborted(options.signal)
      if (await member.healthCheck(options).catch(() => false)) return true
    }
    throwIfAborted(options.signal)
    return false
  }

  async listSnapshots(options: CallOptions = {}): Promise<SnapshotInfo[]> {
    this.#need('snapshot')
    const all: SnapshotInfo[] = []
    for (const member of this.#members) all.push(...(await member.listSnapshots(options)))
    return all
  }

  async deleteSnapshot(snapshotId: string, options: CallOptions = {}): Promise<boolean> {
    this.#need('snapshot')
    return this.#anyOf(this.#members, (member) => member.deleteSnapshot(snapshotId, options))
  }

  /** Lists each member in turn. A failing member fails the call, because a partial list looks complete. */
  async #pageOf<T>(
    options: ListSandboxesOpts,
    list: (member: SandboxProvider, filter: ListSandboxesOpts) => Promise<Page<T>>,
  ): Promise<Page<T>> {
    checkObject(options, 'list()', 'For example { labels: {} }.')
    const { limit, cursor, ...filter } = options
    const start = cursor === undefined ? { place: 0, inner: undefined } : decodeCursor(cursor)
    const page: Page<T> = []
    let { inner } = start
    for (let place = start.place; place < this.#members.length; place += 1) {
      const room = limit === undefined ? {} : { limit: limit - page.length }
      const part = await list(this.#members[place]!, {
        ...filter,
        ...room,
        cursor: inner,
      })
      inner = undefined
      page.push(...part)
      const next = part.nextCursor !== undefined ? place : place + 1
      if (part.nextCursor === undefined && (limit === undefined || page.length < limit)) continue
      if (next < this.#members.length) page.nextCursor = `${next}/${part.nextCursor ?? ''}`
      return page
    }
    return page
  }

  async #findOrCreate({ onCreate, onResume, ...options }: GetOrCreateOpts): Promise<SandboxHandle> {
    const silent = new Set<SandboxProvider>()
    const attempts: FailoverAttempt[] = []
    const errors: unknown[] = []
    let owner: SandboxProvider | undefined
    for (const [place, member] of this.#members.entries()) {
      const began = this.#options.clock.now()
      try {
        const found = await member.list({ name: options.name, signal: options.signal })
        if (!found.some(({ name }) => name === options.name)) continue
        owner = member
        break
      } catch (error) {
        const reason = reasonOf(error)
        attempts.push(failed(member, place, this.#options.clock.now() - began, reason))
        // The name may be taken there. Creating it elsewhere could give two sandboxes one name.
        if (!this.#options.acceptDuplicateNames || !this.#choice.triesNext(reason)) {
          const stopped = `“${member.name}” could not be asked for “${options.name}”, so nothing was created.`
          throw this.#choice.recorded(error, new FailoverAccount(attempts, stopped))
        }
        silent.add(member)
        errors.push(error)
      }
    }
    // The caller's work in a sandbox is done once; its failure is final.
    let begun = false
    const once = (own: GetOrCreateOpts['onCreate']) => (sandbox: SandboxHandle) => {
      begun = true
      return own?.(sandbox)
    }
    const make: Make = (member, adapted) =>
      member.getOrCreate({
        ...adapted,
        name: options.name,
        onCreate: onCreate && once(onCreate),
        onResume: onResume && once(onResume),
      })
    const among = owner ? [owner] : this.#members.filter((member) => !silent.has(member))
    return this.#choice.firstThatCan(options, make, {
      among,
      attempts,
      errors,
      needsCertainty: owner === undefined && !this.#options.acceptDuplicateNames,
      creates: false,
      may: () => !begun,
    })
  }

  /** The first member that knows it. Members that could not be asked matter only if no other knows it. */
  async #search<T>(
    members: readonly SandboxProvider[],
    ask: (member: SandboxProvider) => Promise<T>,
  ): Promise<T> {
    let unknown: unknown
    let absent: unknown
    for (const member of members) {
      try {
        return await ask(member)
      } catch (error) {
        if (SandboxError.is(error, 'not_found')) absent ??= error
        else if (this.#choice.triesNext(reasonOf(error))) unknown ??= error
        else throw error
      }
    }
    throw unknown ?? absent
  }

  async #anyOf(
    members: readonly SandboxProvider[],
    ask: (member: SandboxProvider) => Promise<boolean>,
  ): Promise<boolean> {
    return this.#search(members, async (member) => {
      if (await ask(member)) return true
      throw new SandboxError('not_found', 'Not found at this provider.')
    }).catch((error) => {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    })
  }

  #ownersOf(sandbox: string | SandboxByName): readonly SandboxProvider[] {
    if (typeof sandbox === 'object') {
      const named = this.#members.filter(({ createOptions }) => createOptions.has('name'))
      return named.length > 0 ? named : this.#members
    }
    const sandboxId = sandbox
    const colon = typeof sandboxId === 'string' ? sandboxId.indexOf(':') : -1
    if (colon === -1) return this.#members
    const owners = this.#members.filter(({ name }) => name === sandboxId.slice(0, colon))
    if (owners.length > 0) return owners
    throw invalid(
      `The sandbox ${sandboxId} belongs to none of ${[...new Set(this.#members.map(({ name }) => `“${name}”`))].join(', ')}.`,
      `Ask the provider “${sandboxId.slice(0, colon)}” for it.`,
    )
  }

  /**
   * Rejects an option that only some members support, before anything is created. An unknown option is rejected by
   * the first member.
   */
  #checkOptions(options: CreateSandboxOpts): void {
    checkObject(options, 'create()', 'For example { envVars: {} }.')
    if (this.#options.adapt) return
    for (const [option, value] of Object.entries(options)) {
      const key = (option === 'timeout' ? 'lifetimeMs' : option) as CreateOption
      if (value === undefined || this.createOptions.has(key)) continue
      const lacking = this.#members.filter(({ createOptions }) => !createOptions.has(key))
      if (lacking.length === this.#members.length) continue
      throw new SandboxError(
        'unsupported',
        `Some providers of the group do not support the option \`${option}\` of create(): ${lacking.map(({ name }) => `“${name}”`).join(', ')}.`,
        {
          details: { option },
          hint: `Omit ${option}, or pass it to single providers with \`adapt\`.`,
        },
      )
    }
  }

  #need(ability: Ability): void {
    if (!this.capabilities[ability]) throw unsupported({ provider: this.name }, ability)
  }
}

type Page<T> = T[] & { nextCursor?: string }

const weakest: readonly Isolation[] = ['none', 'simulated', 'process', 'container', 'gvisor', 'vm']

function sharedAbilities(members: readonly SandboxProvider[]): Capabilities {
  const shared: { [A in Ability]?: AbilityLevel } = {}
  for (const ability of Object.keys(members[0]!.capabilities) as Ability[]) {
    const levels = members.map(({ capabilities }) => capabilities[ability])
    if (levels.every((level) => level !== undefined))
      shared[ability] = levels.includes('emulated') ? 'emulated' : 'native'
  }
  return Object.freeze(shared)
}

function decodeCursor(cursor: string): { place: number; inner: string | undefined } {
  const match = /^(\d+)\/(.*)$/s.exec(cursor)
  if (!match) throw invalid('The cursor did not come from list().', 'Pass page.nextCursor unchanged.')
  return { place: Number(match[1]), inner: match[2] === '' ? undefined : match[2] }
}
