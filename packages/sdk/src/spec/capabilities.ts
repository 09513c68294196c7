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
 * Abilities are the optional parts of the contract, as data and as types.
 *
 * A provider's `capabilities` object says `native` or `emulated` for each ability that it has. The type of that
 * object decides which methods exist:
 *
 *     SandboxHandle<{ snapshot: 'native' }>   has snapshot(), has no fork()
 *     SandboxHandle                           provider unknown: has every method; a missing
 *                                             ability throws `unsupported` before any work
 *
 * Each ability adds methods to up to four places ("facets"): the sandbox, its files, its processes and the provider.
 * `AbilityParts` is the whole table.
 */

/** `native`: the provider implements it. `emulated`: the SDK builds it from other calls, which costs more. */
export type AbilityLevel = 'native' | 'emulated'

export interface AbilityParts<C extends Capabilities> {
  /** Write to a running program. Input known in advance (`stdin: 'text'`) needs no ability. */
  stdin: { process: ProcessStdin }
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

/** The type used when the provider is unknown: every ability, checked at run time. */
export type AllCapabilities = { readonly [A in Ability]: AbilityLevel }

/** The abilities in a capabilities type. */
export type AbilityOf<C extends Capabilities> = {
  [A in keyof C]: undefined extends C[A] ? never : A
}[keyof C] &
  Ability

/** The abilities that both providers have; a failover group offers these. */
export type SharedCapabilities<A extends Capabilities, B extends Capabilities> = {
  readonly [K in AbilityOf<A> & AbilityOf<B>]: AbilityLevel
}

type Facet = 'sandbox' | 'files' | 'process' | 'provider'

/**
 * The methods that the abilities of `C` add to one facet.
 * Wrapping each part in a function parameter makes inference turn the union into an intersection and drop `unknown`.
 */
export type Parts<C extends Capabilities, F extends Facet> = [AbilityOf<C>] extends [never]
  ? unknown
  : { [A in AbilityOf<C>]: (part: PartOf<AbilityParts<C>[A], F>) => void }[AbilityOf<C>] extends (
        part: infer I,
      ) => void
    ? I
    : never

type PartOf<P, F extends Facet> = F extends keyof P ? P[F] : unknown
