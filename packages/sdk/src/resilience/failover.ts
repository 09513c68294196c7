import { checkKnown, checkMs, invalid } from '../core/validate.ts'
import { errorTable, type SandboxErrorCode } from '../errors.ts'
import { type Clock, realClock } from '../shared/clock.ts'
import type {
  AbilityLevel,
  AbilityOf,
  CallOptions,
  Capabilities,
  CreateSandboxOpts,
  SandboxProvider,
  SandboxProviderCore,
  SharedCapabilities,
} from '../spec/index.ts'
import type { FailoverAccount } from './failover-account.ts'
import { Group } from './group.ts'
import type { Leftover } from './leftovers.ts'

/** A provider with any abilities. */
export type AnyProvider = Pick<SandboxProviderCore, 'name' | 'isolation' | 'createOptions'> & {
  readonly capabilities: Capabilities
}

export interface FailoverOptions {
  /**
   * Failures after which the next provider is tried, beside those where a provider cannot be reached, is overloaded or answers
   * nonsense (`unavailable`, `connection_lost`, `timeout`, `rate_limited`, `provider_error`): its quota or its disk is full.
   */
  also?: ReadonlyArray<'quota_exceeded' | 'disk_full'>
  /** What a provider is asked for, where that differs between them: images, regions, `providerOptions`. */
  adapt?: (options: CreateSandboxOpts, provider: string) => CreateSandboxOpts
  /** A create that takes longer than this has failed. Default: as long as the provider takes. */
  attemptTimeoutMs?: number
  /** Told of every choice, also of those that failed. */
  onChoice?: (account: FailoverAccount) => void
  /** Told of a create that failed at a provider which then could not be asked what is left, for some minutes. */
  onLeftover?: (leftover: Leftover) => void
  /** In `getOrCreate`: create also while a provider that may have a sandbox of that name cannot be asked. Default false. */
  acceptDuplicateNames?: boolean
  /** Needed where some of the providers isolate and others do not. */
  acceptNoIsolation?: boolean
  /** For tests: a `ManualClock`. */
  clock?: Clock
}

export interface Failover extends AsyncDisposable {
  /** How this sandbox came to its provider, or why this error came; undefined for what is not from this group. */
  explain(sandboxOrError: object): FailoverAccount | undefined
  /** Asks providers again what failed creates left, and destroys it. Gives what could not be looked for. */
  sweep(options?: CallOptions): Promise<Leftover[]>
}

/** A group of providers, with the abilities that all of them have. */
export type FailoverProvider<C extends Capabilities> = SandboxProvider<C> & Failover

/** The abilities that every provider of a list has. */
export type CommonCapabilities<P extends readonly AnyProvider[]> = P extends readonly [
  infer First extends AnyProvider,
  ...infer Rest extends AnyProvider[],
]
  ? Rest['length'] extends 0
    ? { readonly [A in AbilityOf<First['capabilities']>]: AbilityLevel }
    : SharedCapabilities<First['capabilities'], CommonCapabilities<Rest>>
  : P[number]['capabilities']

/**
 * Several providers as one: a sandbox is created at the first that can, in the order in which they are given, and the choice is
 * explained. Sandboxes are found again wherever they are. The type has what all of them can do.
 *
 *     const provider = failover(own, daytona, e2b, { onChoice: (account) => log(String(account)) })
 *
 * Another provider is tried only when one cannot do it now. Wrong credentials, a wrong option or a cancelled call are told at once,
 * and nothing that has begun in a sandbox is begun again in another.
 */
export function failover<const P extends readonly AnyProvider[]>(
  ...providers: P
): FailoverProvider<CommonCapabilities<P>>
export function failover<const P extends readonly AnyProvider[]>(
  ...providersAndOptions: readonly [...P, FailoverOptions]
): FailoverProvider<CommonCapabilities<P>>
export function failover(
  ...given: ReadonlyArray<AnyProvider | FailoverOptions>
): FailoverProvider<Capabilities> {
  const last = given.at(-1)
  const options: FailoverOptions = last === undefined || isProvider(last) ? {} : last
  const providers = (options === last ? given.slice(0, -1) : given) as unknown as SandboxProvider[]
  checkKnown(options, optionNames, 'failover()')
  if (providers.length === 0 || !providers.every(isProvider))
    throw invalid(
      'failover() takes providers, and options at the end.',
      'For example failover(first, second).',
    )
  const codes = (options.also ?? []) as readonly SandboxErrorCode[]
  for (const code of codes)
    if (code !== 'quota_exceeded' && code !== 'disk_full')
      throw invalid(`\`also\` cannot have “${code}”.`, 'It takes quota_exceeded and disk_full.')
  const open = providers.filter(({ isolation }) => isolation === 'none')
  if (open.length > 0 && open.length < providers.length && !options.acceptNoIsolation)
    throw invalid(
      `${open.map(({ name }) => `“${name}”`).join(' and ')} does not isolate, and others of the group do: what was meant for a wall could run without one.`,
      'Leave it out, or say acceptNoIsolation: true.',
    )
  return new Group(providers, {
    goesOn: new Set([...transient, ...codes]),
    adapt: options.adapt,
    attemptTimeoutMs:
      options.attemptTimeoutMs === undefined
        ? undefined
        : checkMs(options.attemptTimeoutMs, 'attemptTimeoutMs'),
    onChoice: options.onChoice,
    onLeftover: options.onLeftover,
    acceptDuplicateNames: options.acceptDuplicateNames ?? false,
    clock: options.clock ?? realClock,
  }) as unknown as FailoverProvider<Capabilities>
}

/** What the table calls retryable, and an answer that makes no sense. */
const transient = [
  ...(Object.keys(errorTable) as SandboxErrorCode[]).filter((code) => errorTable[code].retryable),
  'provider_error' as const,
]

const optionNames = [
  'also',
  'adapt',
  'attemptTimeoutMs',
  'onChoice',
  'onLeftover',
  'acceptDuplicateNames',
  'acceptNoIsolation',
  'clock',
] satisfies Array<keyof FailoverOptions>

function isProvider(value: AnyProvider | FailoverOptions): value is AnyProvider {
  return typeof value === 'object' && value !== null && 'capabilities' in value && 'createOptions' in value
}
