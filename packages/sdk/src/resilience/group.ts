import { unsupported } from '../core/supports.ts'
import { checkLabels, invalid } from '../core/validate.ts'
import { SandboxError, type SandboxErrorCode } from '../errors.ts'
import { throwIfAborted } from '../shared/abort.ts'
import type { Clock } from '../shared/clock.ts'
import { randomId } from '../shared/ids.ts'
import type {
  Ability,
  AbilityLevel,
  CallOptions,
  Capabilities,
  CreateOption,
  CreateSandboxOpts,
  GetOrCreateOpts,
  GetSandboxOpts,
  Isolation,
  ListSandboxesOpts,
  SandboxHandle,
  SandboxPage,
  SandboxProvider,
  SandboxProviderCore,
  SnapshotAdmin,
  SnapshotInfo,
} from '../spec/index.ts'
import {
  exhausted,
  FailoverAccount,
  type FailoverAttempt,
  failed,
  mayHaveLeft,
  reasonOf,
  whyStopped,
} from './account.ts'
import type { Failover, FailoverOptions } from './failover.ts'
import { attemptLabel, type Leftover, Leftovers } from './leftovers.ts'
import { within } from './within.ts'

export interface GroupOptions {
  readonly goesOn: ReadonlySet<SandboxErrorCode>
  readonly adapt: FailoverOptions['adapt'] | undefined
  readonly attemptTimeoutMs: number | undefined
  readonly onChoice: FailoverOptions['onChoice'] | undefined
  readonly onLeftover: FailoverOptions['onLeftover'] | undefined
  readonly acceptDuplicateNames: boolean
  readonly clock: Clock
}

type Make = (member: SandboxProvider, options: CreateSandboxOpts) => Promise<SandboxHandle>

/** Providers as one. It keeps no list of sandboxes: ids say where they belong, and names are asked for. */
export class Group implements SandboxProviderCore<Capabilities>, SnapshotAdmin, Failover {
  readonly name: string
  readonly capabilities: Capabilities
  readonly isolation: Isolation
  readonly createOptions: ReadonlySet<CreateOption>
  readonly #members: readonly SandboxProvider[]
  readonly #options: GroupOptions
  readonly #leftovers: Leftovers
  readonly #accounts = new WeakMap<object, FailoverAccount>()
  /** getOrCreate calls under way, by name: the second caller finds what the first one made, wherever that is. */
  readonly #creating = new Map<string, Promise<unknown>>()

  constructor(members: readonly SandboxProvider[], options: GroupOptions) {
    this.#members = members
    this.#options = options
    this.#leftovers = new Leftovers(options.clock, options.onLeftover)
    const names = new Set(members.map(({ name }) => name))
    this.name = names.size === 1 ? members[0]!.name : 'failover'
    this.capabilities = sharedAbilities(members)
    this.isolation = weakest.find((level) => members.some(({ isolation }) => isolation === level)) ?? 'none'
    const [first, ...others] = members.map(({ createOptions }) => createOptions)
    this.createOptions = new Set(
      [...first!].filter((option) => others.every((options) => options.has(option))),
    )
  }

  explain(subject: object): FailoverAccount | undefined {
    return this.#accounts.get(subject)
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
    // A snapshot is at one of them; the others do not know it, which is not a failure.
    return this.#firstThatCan(options, make, {
      passesOver: options.snapshotId === undefined ? [] : ['not_found'],
    })
  }

  async getOrCreate(options: GetOrCreateOpts<Capabilities>): Promise<SandboxHandle> {
    this.#checkOptions(options)
    const { name } = options
    if (typeof name !== 'string') return this.#members[0]!.getOrCreate(options as GetOrCreateOpts)
    for (let earlier = this.#creating.get(name); earlier; earlier = this.#creating.get(name))
      await earlier.catch(() => {})
    const turn = this.#findOrCreate(options as GetOrCreateOpts)
    this.#creating.set(name, turn)
    try {
      return await turn
    } finally {
      this.#creating.delete(name)
    }
  }

  async get(sandboxId: string, options: GetSandboxOpts = {}): Promise<SandboxHandle> {
    return this.#search(this.#ownersOf(sandboxId), (member) => member.get(sandboxId, options))
  }

  async destroy(sandboxId: string, options: CallOptions = {}): Promise<boolean> {
    return this.#anyOf(this.#ownersOf(sandboxId), (member) => member.destroy(sandboxId, options))
  }

  /** Every member's, one after the other. A member that fails fails this: half a list is taken for a whole one. */
  async list(options: ListSandboxesOpts = {}): Promise<SandboxPage> {
    const { limit, cursor, ...filter } = options
    const start = cursor === undefined ? { place: 0, inner: undefined } : decodeCursor(cursor)
    const page: SandboxPage = []
    let { inner } = start
    for (let place = start.place; place < this.#members.length; place += 1) {
      const room = limit === undefined ? {} : { limit: limit - page.length }
      const part = await this.#members[place]!.list({
        ...filter,
        ...room,
        ...(inner === undefined ? {} : { cursor: inner }),
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

  /** Whether any of them can be used. */
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

  async #findOrCreate({ onCreate, onResume, ...options }: GetOrCreateOpts): Promise<SandboxHandle> {
    const silent = new Set<SandboxProvider>()
    const attempts: FailoverAttempt[] = []
    const errors: unknown[] = []
    let owner: SandboxProvider | undefined
    for (const [place, member] of this.#members.entries()) {
      const began = this.#options.clock.now()
      try {
        const found = await member.list({ name: options.name, signal: options.signal })
        if (found.length === 0) continue
        owner = member
        break
      } catch (error) {
        const reason = reasonOf(error)
        attempts.push(failed(member, place, this.#options.clock.now() - began, reason))
        // Not knowing whether the name is taken there is no licence to take it elsewhere: two would live under one name.
        if (!this.#options.acceptDuplicateNames || !this.#goesOn(reason)) {
          const stopped = `“${member.name}” could not be asked for “${options.name}”, so nothing was created.`
          throw this.#recorded(error, new FailoverAccount(attempts, stopped))
        }
        silent.add(member)
        errors.push(error)
      }
    }
    // What the caller does in a sandbox is done once; when it fails, that is its own failure.
    let begun = false
    const once = (own: GetOrCreateOpts['onCreate']) => (sandbox: SandboxHandle) => {
      begun = true
      return own?.(sandbox)
    }
    const make: Make = (member, adapted) =>
      member.getOrCreate({
        ...adapted,
        name: options.name,
        ...(onCreate ? { onCreate: once(onCreate) } : {}),
        ...(onResume ? { onResume: once(onResume) } : {}),
      })
    const among = owner ? [owner] : this.#members.filter((member) => !silent.has(member))
    return this.#firstThatCan(options, make, {
      among,
      attempts,
      errors,
      needsCertainty: !this.#options.acceptDuplicateNames,
      may: () => !begun,
    })
  }

  async #firstThatCan(
    options: CreateSandboxOpts,
    make: Make,
    {
      among = this.#members,
      attempts = [],
      errors = [],
      passesOver = [],
      needsCertainty = false,
      may = () => true,
    }: {
      among?: readonly SandboxProvider[]
      attempts?: FailoverAttempt[]
      errors?: unknown[]
      /** Failures that only mean: not this one. */
      passesOver?: readonly SandboxErrorCode[]
      /** Go on only when it is known that a failed attempt left nothing. */
      needsCertainty?: boolean
      may?: () => boolean
    },
  ): Promise<SandboxHandle> {
    const searches: Promise<boolean>[] = []
    for (const member of among) {
      throwIfAborted(options.signal, 'Creating the sandbox')
      const place = this.#members.indexOf(member)
      const began = this.#options.clock.now()
      const { attempt, given } = this.#marked(member, options)
      try {
        const sandbox = await this.#attempt(member, given, make)
        const durationMs = this.#options.clock.now() - began
        attempts.push({ provider: member.name, place, outcome: 'chosen', durationMs })
        await Promise.all(searches)
        return this.#recorded(sandbox, new FailoverAccount(attempts))
      } catch (error) {
        errors.push(error)
        const reason = reasonOf(error)
        const index = attempts.push(failed(member, place, this.#options.clock.now() - began, reason)) - 1
        // Where the caller's own work had begun the provider has removed the sandbox, or said that it could not.
        if (mayHaveLeft(error, reason) && (may() || error instanceof AggregateError)) {
          const search = this.#searchLeft(member, attempt, options.name).then(({ words, sure }) => {
            attempts[index] = { ...attempts[index]!, leftovers: words }
            return sure
          })
          searches.push(search)
          if (needsCertainty && !(await search)) {
            const stopped = `No other was tried: “${options.name}” may have been created at “${member.name}”.`
            throw this.#recorded(error, new FailoverAccount(attempts, stopped))
          }
        }
        const goesOn =
          may() && (this.#goesOn(reason) || passesOver.includes(reason?.code as SandboxErrorCode))
        if (goesOn) continue
        await Promise.all(searches)
        const stopped = member === among.at(-1) ? undefined : whyStopped(reason, may())
        throw this.#recorded(error, new FailoverAccount(attempts, stopped))
      }
    }
    await Promise.all(searches)
    const account = new FailoverAccount(attempts)
    throw this.#recorded(errors.length === 1 ? errors[0] : exhausted(errors, account), account)
  }

  /** A new label for each attempt, by which its remains are found. */
  #marked(
    member: SandboxProvider,
    options: CreateSandboxOpts,
  ): { attempt: string | undefined; given: CreateSandboxOpts } {
    const given = this.#options.adapt?.(options, member.name) ?? options
    if (!member.createOptions.has('labels')) return { attempt: undefined, given }
    const attempt = randomId()
    return { attempt, given: { ...given, labels: { ...checkLabels(given.labels), [attemptLabel]: attempt } } }
  }

  #attempt(member: SandboxProvider, given: CreateSandboxOpts, make: Make): Promise<SandboxHandle> {
    const { attemptTimeoutMs: ms, clock } = this.#options
    if (ms === undefined) return make(member, given)
    const what = `Creating the sandbox at “${member.name}”`
    return within({ ms, clock, signal: given.signal, what, provider: member.name }, (signal) => {
      const making = make(member, { ...given, signal })
      // One that comes after all, from a provider that does not listen, has nobody to use it.
      making.then((sandbox) => signal.aborted && sandbox.destroy()).catch(() => {})
      return making
    })
  }

  /**
   * A sandbox without a name is known to nobody else, so it can be looked for as long as one likes. One with a name may be found and
   * used by somebody in the meantime, so it is looked for at once and never later.
   */
  #searchLeft(
    member: SandboxProvider,
    attempt: string | undefined,
    name: string | undefined,
  ): Promise<{ words: string; sure: boolean }> {
    if (attempt !== undefined) return this.#leftovers.search(member, attempt, { later: name === undefined })
    return Promise.resolve({ words: 'knows no labels, so it cannot be asked what is left', sure: false })
  }

  /** The first that knows it. What could not be asked is only told if nobody else knows it. */
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
        else if (this.#goesOn(reasonOf(error))) unknown ??= error
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
      throw new SandboxError('not_found', 'It is not here.')
    }).catch((error) => {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    })
  }

  #ownersOf(sandboxId: string): readonly SandboxProvider[] {
    const colon = typeof sandboxId === 'string' ? sandboxId.indexOf(':') : -1
    if (colon === -1) return this.#members
    const owners = this.#members.filter(({ name }) => name === sandboxId.slice(0, colon))
    if (owners.length > 0) return owners
    throw invalid(
      `The sandbox ${sandboxId} belongs to none of ${[...new Set(this.#members.map(({ name }) => `“${name}”`))].join(', ')}.`,
      `Ask the provider “${sandboxId.slice(0, colon)}” for it.`,
    )
  }

  /** An option that only some of them know is refused before anything is made; one that nobody knows the first will refuse. */
  #checkOptions(options: CreateSandboxOpts): void {
    if (this.#options.adapt) return
    for (const [option, value] of Object.entries(options ?? {})) {
      const key = (option === 'timeout' ? 'lifetimeMs' : option) as CreateOption
      if (value === undefined || this.createOptions.has(key)) continue
      const lacking = this.#members.filter(({ createOptions }) => !createOptions.has(key))
      if (lacking.length === this.#members.length) continue
      throw new SandboxError(
        'unsupported',
        `Not every provider of the group knows the option \`${option}\` of create(): ${lacking.map(({ name }) => `“${name}”`).join(', ')} does not.`,
        {
          details: { option },
          hint: `Leave ${option} out, or give it to those that know it with \`adapt\`.`,
        },
      )
    }
  }

  #need(ability: Ability): void {
    if (!this.capabilities[ability]) throw unsupported({ provider: this.name }, ability)
  }

  #goesOn(reason: SandboxError | undefined): boolean {
    return reason !== undefined && this.#options.goesOn.has(reason.code)
  }

  #recorded<T>(subject: T, account: FailoverAccount): T {
    if (typeof subject === 'object' && subject !== null) this.#accounts.set(subject, account)
    try {
      this.#options.onChoice?.(account)
    } catch {
      // A listener's own failure must not cost the caller a sandbox that has just been made.
    }
    return subject
  }
}

/** From the least to the most that stands between a sandbox and its neighbours. */
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
  if (!match)
    throw invalid('The cursor is not one that list() returned.', 'Pass page.nextCursor on as it is.')
  return { place: Number(match[1]), inner: match[2] === '' ? undefined : match[2] }
}
