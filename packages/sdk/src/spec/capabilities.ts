import type { SandboxFilesWatch } from './files.ts'
import type { ProcessStdin } from './process.ts'
import type { SnapshotAdmin } from './provider.ts'
import type {
  SandboxActivity,
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
 * Abilities: what a provider may or may not have, as data and as types.
 *
 * A provider's `capabilities` object says `native` or `emulated` for each ability that it has; one that is not
 * there is absent. The type of that object decides which methods exist:
 *
 *     SandboxHandle<{ snapshot: 'native' }>   has snapshot(), has no fork()
 *     SandboxHandle                            provider not known: has every method, and an absent
 *                                              one throws `unsupported` before it does anything
 *
 * Each ability brings its methods to up to four places ("facets"): the sandbox, its files, its processes and
 * the provider. `AbilityParts` is the whole table.
 */

/** `native`: the provider does it. `emulated`: we build it from other calls, with the costs that this has. */
export type AbilityLevel = 'native' | 'emulated'

export interface AbilityParts<C extends Capabilities> {
  /** Feed a running program. Input known beforehand (`stdin: 'text'`) needs no ability. */
  stdin: { process: ProcessStdin }
  /** Find processes again: from another handle, or from another process of yours. */
  reattach: { sandbox: SandboxReattach<C> }
  /** A shell whose working directory, variables, functions and background jobs live on. */
  shell: { sandbox: SandboxShells }
  /** A pseudo-terminal that can be resized. */
  terminal: { sandbox: SandboxTerminals }
  /** Reach a port inside the sandbox. */
  ports: { sandbox: SandboxPorts }
  /** Be told of changes to files. */
  watch: { files: SandboxFilesWatch }
  /** Stop and start again, keeping the disk. */
  stop: { sandbox: SandboxStop }
  /** Stop time and start it again, keeping the disk and the memory. */
  pause: { sandbox: SandboxPause }
  /** Save the disk and create new sandboxes from it. */
  snapshot: { sandbox: SandboxSnapshots; provider: SnapshotAdmin }
  /** Copies of this sandbox. */
  fork: { sandbox: SandboxFork<C> }
  /** The sandbox ends by itself, and that end can be put off. */
  lifetime: { sandbox: SandboxLifetime }
  /** The sandbox stops when nobody uses it, and being needed can be said without using it. */
  activity: { sandbox: SandboxActivity }
}

export type Ability =
  | 'stdin'
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

export type Capabilities = { readonly [A in Ability]?: AbilityLevel }

/** What is assumed where the provider is not known: everything, checked when it is called. */
export type AllCapabilities = { readonly [A in Ability]: AbilityLevel }

/** The abilities that are present in a capabilities type. */
export type AbilityOf<C extends Capabilities> = {
  [A in keyof C]: undefined extends C[A] ? never : A
}[keyof C] &
  Ability

/** The abilities that every one of several providers has: what a fail-over group may offer. */
export type SharedCapabilities<A extends Capabilities, B extends Capabilities> = {
  readonly [K in AbilityOf<A> & AbilityOf<B>]: AbilityLevel
}

type Facet = 'sandbox' | 'files' | 'process' | 'provider'

/**
 * The methods that the abilities of `C` bring to one facet: the intersection of their parts. Each part is wrapped
 * in a function's parameter, where inference turns the union into an intersection and `unknown` vanishes.
 */
export type Parts<C extends Capabilities, F extends Facet> = [AbilityOf<C>] extends [never]
  ? unknown
  : { [A in AbilityOf<C>]: (part: PartOf<AbilityParts<C>[A], F>) => void }[AbilityOf<C>] extends (
        part: infer I,
      ) => void
    ? I
    : never

type PartOf<P, F extends Facet> = F extends keyof P ? P[F] : unknown
