import { checkKnown, checkMs, invalid } from '../core/validate.ts'
import { errorTable, type SandboxErrorCode } from '../errors.ts'
import { type Clock, realClock } from '../shared/calls/clock.ts'
import type {
  AbilityLevel,
  AbilityOf,
  CallOptions,
  Capabilities,
  CreateSandboxOpts,
  SandboxProvider,
  SharedCapabilities,
} from '../spec/index.ts'
import type { FailoverAccount } from './failover-account.ts'
import { Group } from './group.ts'
import type { Leftover } from './leftovers.ts'

export interface FailoverOptions {
  /**
   * Further codes after which the next provider is tried: a full quota or disk. Always included: `unavailable`,
   * `connection_lost`, `timeout`, `rate_limited`, `provider_error`.
   */
  also?: ReadonlyArray<'quota_exceeded' | 'disk_full'>
  /** Changes the options for one provider: images, regions, `providerOptions`. */
  adapt?: (options: CreateSandboxOpts, provider: string) => CreateSandboxOpts
  /** The time limit of one create. Default: unlimited. */
  attemptTimeoutMs?: number
  /** Called for every choice, also failed ones. */
  onChoice?: (account: FailoverAccount) => void
  /** Called if leftovers of a failed create could not be searched for during some minutes. */
  onLeftover?: (leftover: Leftover) => void
  /**
   * For `getOrCreate`: create even if a provider that may have a sandbox of that name cannot be asked. Default false.
   */
  acceptDuplicateNames?: boolean
  /** Required if only some of the providers isolate. */
  acceptNoIsolation?: boolean
  /** For tests: a `ManualClock`. */
  clock?: Clock
}

export interface Failover extends AsyncDisposable {
  /**
   * How this sandbox's provider was chosen, or how this error came about; undefined for objects of another origin.
   */
  explain(sandboxOrError: object): FailoverAccount | undefined
  /**
   * Searches again for leftovers of failed creates and destroys them. Returns those that could not be searched for.
   */
  sweep(options?: CallOptions): Promise<Leftover[]>
}

/** A group of providers, with the abilities that all of them have. */
export type FailoverProvider<C extends Capabilities> = SandboxProvider<C> & Failover

export type CommonCapabilities<P extends readonly SandboxProvider[]> = P extends readonly [
  infer First extends SandboxProvider,
  ...infer Rest extends SandboxProvider[],
]
  ? Rest['length'] extends 0
    ? { readonly [A in AbilityOf<First['capabilities']>]: AbilityLevel }
    : SharedCapabilities<First['capabilities'], CommonCapabilities<Rest>>
  : P[number]['capabilities']

/**
 * Combines several providers: a sandbox is created at the first that works, in the given order, and the choice is
 * explained. Sandboxes are found at any of them. The type has the common abilities.
 *
 *     const provider = failover(own, daytona, e2b, { onChoice: (account) => log(String(account)) })
 *
 * Another provider is tried only if one cannot do it now. Wrong credentials, a wrong option or a cancelled call
 * reject immediately, and work that has begun in a sandbox is never repeated in another.
 */
export function failover<const P extends readonly SandboxProvider[]>(
  ...providers: P
): FailoverProvider<CommonCapabilities<P>>
export function failover<const P extends readonly SandboxProvider[]>(
  ...providersAndOptions: readonly [...P, FailoverOptions]
): FailoverProvider<CommonCapabilities<P>>
export function failover(
  ...given: ReadonlyArray<SandboxProvider | FailoverOptions>
): FailoverProvider<Capabilities> {
  const last = given.at(-1)
  const options: FailoverOptions = last === undefined || isProvider(last) ? {} : last
  const providers = options === last ? given.slice(0, -1) : given
  checkKnown(options, optionNames, 'failover()')
  if (providers.length === 0 || !providers.every(isProvider))
    throw invalid(
      'failover() takes providers, and options at the end.',
      'For example failover(first, second).',
    )
  const codes = (options.also ?? []) as readonly SandboxErrorCode[]
  for (const code of codes)
    if (code !== 'quota_exceeded' && code !== 'disk_full')
      throw invalid(`\`also\` cannot have “${code}”.`, 'It accepts quota_exceeded and disk_full.')
  const open = providers.filter(({ isolation }) => isolation === 'none')
  if (open.length > 0 && open.length < providers.length && !options.acceptNoIsolation)
    throw invalid(
      `${open.map(({ name }) => `“${name}”`).join(' and ')} does not isolate, but other providers of the group do: untrusted code could run without isolation.`,
      'Remove it, or set acceptNoIsolation: true.',
    )
  return new Group(providers, {
    triesNext: new Set([...transient, ...codes]),
    adapt: options.adapt,
    attemptTimeoutMs:
      options.attemptTimeoutMs === undefined
        ? undefined
        : checkMs(options.attemptTimeoutMs, 'attemptTimeoutMs'),
    onChoice: options.onChoice,
    onLeftover: options.onLeftover,
    acceptDuplicateNames: options.acceptDuplicateNames ?? false,
    clock: options.clock ?? realClock,
  })
}

/** The retryable codes of the error table, and invalid responses. */
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

function isProvider(value: SandboxProvider | FailoverOptions): value is SandboxProvider {
  return typeof value === 'object' && value !== null && 'capabilities' in value && 'createOptions' in value
}
