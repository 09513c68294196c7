import type { SandboxFilesWatch } from './files.ts'
import type { ProcessStdin } from './process.ts'
import type { SnapshotAdmin } from './provider.ts'
import type {
  SandboxActivity,
  SandboxEgress,
  SandboxFork,
  SandboxLifetime,
  SandboxPause,
  SandboxPorts,
  SandboxReattach,
  SandboxShells,
  SandboxSnapshots,
  SandboxStop,
  SandboxTerminals,
} from './sandbox.ts'

/**
 * Abilities are the optional parts of the contract, as data and as types.
 *
 * A provider's `capabilities` object says `native` or `emulated` for each ability that it has. The type of that
 * object decides which methods can be called:
 *
 *     SandboxHandle<{ snapshot: 'native' }>   snapshot() compiles, fork() does not
 *     SandboxHandle                           holds the handle of any provider: every method compiles, and a missing
 *                                             ability throws `unsupported` before any work
 *     SandboxCore                             holds any handle, too: no ability compiles without `supports()`
 *
 * Each ability adds methods to up to four places ("facets"): the sandbox, its files, its processes and the provider.
 * `AbilityParts` is the whole table. The README of `core` explains how one type can hold every provider.
 */

/** `native`: the provider implements it. `emulated`: the SDK builds it from other calls, which costs more. */
export type AbilityLevel = 'native' | 'emulated'

export interface AbilityParts<C extends Capabilities = Capabilities> {
  /** Write to a running program. Input known in advance (`stdin: 'text'`) needs no ability. */
  stdin: { process: ProcessStdin }
  /** `output: 'merged'`: stdout and stderr as one pipe, in their true order. */
  mergedOutput: object
  /** Events of stdout and stderr are in their true order also without `output: 'merged'`. */
  orderedOutput: object
  /** Find running processes from another handle or another process. */
  reattach: { sandbox: SandboxReattach<C> }
  /** A shell that keeps its working directory, variables, functions and background jobs between commands. */
  shell: { sandbox: SandboxShells }
  /** A pseudo-terminal that can be resized. */
  terminal: { sandbox: SandboxTerminals }
  /** Reach a port inside the sandbox. */
  ports: { sandbox: SandboxPorts }
  /** Watch files for changes. */
  watch: { files: SandboxFilesWatch }
  /** Stop and start again, keeping the disk. */
  stop: { sandbox: SandboxStop }
  /** Freeze and resume, keeping disk and memory. */
  pause: { sandbox: SandboxPause }
  /** Save the disk and create new sandboxes from it. */
  snapshot: { sandbox: SandboxSnapshots; provider: SnapshotAdmin }
  /** Copies of this sandbox. */
  fork: { sandbox: SandboxFork<C> }
  /** The sandbox has an end time, which can be extended. */
  lifetime: { sandbox: SandboxLifetime }
  /** The sandbox stops when idle; a call resets the idle timer. */
  activity: { sandbox: SandboxActivity }
  /** Network policies at `create`, and `setNetwork()` while the sandbox runs. */
  egress: { sandbox: SandboxEgress }
}

export type Ability =
  | 'stdin'
  | 'mergedOutput'
  | 'orderedOutput'
  | 'reattach'
  | 'shell'
  | 'terminal'
  | 'ports'
  | 'watch'
  | 'stop'
  | 'pause'
  | 'snapshot'
  | 'fork'
  | 'lifetime'
  | 'activity'
  | 'egress'

/** Says nothing about a provider: each ability may be there. The default of all types of the contract. */
export type Capabilities = { readonly [A in Ability]?: AbilityLevel }

/** A provider that has every ability. */
export type AllCapabilities = { readonly [A in Ability]: AbilityLevel }

/** The abilities that a provider with these capabilities certainly has. */
export type AbilityOf<C extends Capabilities> = {
  [A in keyof C]: undefined extends C[A] ? never : A
}[keyof C] &
  Ability

/**
 * The abilities that both providers have; a failover group offers these. If the abilities of one are unknown, so are
 * those of the group.
 */
export type SharedCapabilities<A extends Capabilities, B extends Capabilities> =
  IsUnknown<A> extends true
    ? Capabilities
    : IsUnknown<B> extends true
      ? Capabilities
      : { readonly [K in AbilityOf<A> & AbilityOf<B>]: AbilityLevel }

/**
 * Whether methods of this ability compile with these capabilities: the provider has the ability, or nothing is known
 * about the provider.
 */
export type Offers<C extends Capabilities, A extends Ability> = C extends { readonly [K in A]: AbilityLevel }
  ? true
  : IsUnknown<C>

/** A concrete provider leaves out what it cannot do, so a type that names every ability excludes none. */
type IsUnknown<C extends Capabilities> = [Ability] extends [keyof C]
  ? [C] extends [AllCapabilities]
    ? false
    : true
  : false

type Facet = 'sandbox' | 'files' | 'process' | 'provider'

/** The methods that one ability adds to a facet. */
export type PartOf<
  A extends Ability,
  F extends Facet,
  C extends Capabilities = Capabilities,
> = AbilityParts<C>[A] extends { readonly [K in F]: infer Part } ? Part : unknown

/** The same, callable only if the capabilities offer the ability. */
export type Part<C extends Capabilities, A extends Ability, F extends Facet> = Offered<
  C,
  A,
  PartOf<A, F, C>,
  PartOf<A, F>
>

/**
 * The methods of an absent ability are declared, so that every handle is assignable to the general type, but a call
 * does not compile: `this` lacks the ability. The objects have these methods, too; they throw `unsupported`.
 *
 * The condition is in each method, not around all of them: compilers compare an intersection of n conditional types in
 * 2^n ways.
 */
type Offered<C extends Capabilities, A extends Ability, Own, General> = {
  [M in keyof Own]: Offers<C, A> extends true ? Own[M] : Absent<General[M & keyof General], A>
}

type Absent<Method, A extends Ability> = Method extends (...args: infer Args) => infer Result
  ? (this: Needs<A>, ...args: Args) => Result
  : Method

/** An object with this ability. Compilers print this name when a call needs a missing ability. */
export interface Needs<A extends Ability> {
  readonly capabilities: { readonly [K in A]: AbilityLevel }
}
