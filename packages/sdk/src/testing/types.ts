import type { Ability, CreateOption, SandboxHandle, SandboxProvider } from '../spec/index.ts'
import type { CommandKit, OptionalProgram } from './command-kit.ts'
import type { Trial } from './trial.ts'

/** One observable behaviour of a provider. Behaviours are data: list, count or filter them. */
export interface Behaviour {
  readonly id: string
  readonly group: string
  /** A sentence about what a user observes. */
  readonly name: string
  /** If one of these is absent, its methods must throw `unsupported` instead. */
  readonly needs?: readonly Ability[]
  /**
   * If the provider does not declare one of these options of `create`, passing it must throw `unsupported` instead.
   */
  readonly options?: readonly CreateOption[]
  /** A program that not every sandbox has. */
  readonly program?: OptionalProgram
  /** It is about a fact that some providers do not know. */
  readonly fact?: OptionalFact
  run(trial: Trial): Promise<void>
}

export type OptionalFact = 'writablePaths'

export type Draft = Omit<Behaviour, 'group'>

export function group(name: string, drafts: readonly Draft[]): Behaviour[] {
  return drafts.map((draft) => ({ ...draft, group: name }))
}

/** Handles and providers as behaviours use them: with all methods; absent ones throw. */
export type AnySandbox = SandboxHandle
export type AnyProvider = SandboxProvider

export interface ConformanceOptions {
  /** Called once; all behaviours share the provider. */
  provider: () => SandboxProvider | Promise<SandboxProvider>
  /** The programs that the sandboxes can run. Default `posixCommands()`. */
  commands?: CommandKit | (() => CommandKit)
  /**
   * Another provider object over the same sandboxes, as another process would have: for behaviours that survive a
   * restart.
   */
  reopen?: () => SandboxProvider | Promise<SandboxProvider>
  /** The reason for each optional program, optional fact, `reopen` or `leftovers` that is missing. */
  without?: { readonly [What in OptionalProgram | OptionalFact | 'reopen' | 'leftovers']?: string }
  /** What is left of a sandbox on its host (processes, folders), seen from outside. */
  leftovers?: (sandboxId: string) => Promise<readonly string[]> | readonly string[]
  /** Needed by the ability `egress`, together with the program `connect`. */
  egress?: EgressTargets
  /** Runtimes that the provider must have: those that you gave it. */
  runtimes?: readonly string[]
  /** Runs only these: ids, groups, or a predicate. */
  only?: readonly string[] | ((behaviour: Behaviour) => boolean)
  limits?: Partial<Limits>
}

/**
 * Two HTTP servers that a sandbox with the right policy reaches. They keep idle connections for at least the time limit
 * of a behaviour.
 */
export interface EgressTargets {
  /** Policies allow it first. */
  allowed: NetworkTarget
  /** Policies deny it first. */
  denied: NetworkTarget
}

/** A name or an address, and a port, as rules name them. */
export interface NetworkTarget {
  host: string
  port: number
}

export interface Limits {
  /** Time limit of one behaviour. Default 60 s. */
  behaviourMs: number
  /** The `timeoutMs` of commands that must time out. Default 400. */
  commandTimeoutMs: number
  /** The lifetime of sandboxes that must expire. Default 1500. */
  lifetimeMs: number
  /** The size of the file that is streamed both ways. Default 100 MiB. */
  bigFileBytes: number
  /** How much this process may grow meanwhile, or while a reader is slow. Default 64 MiB. */
  growthBytes: number
  /** The output of commands that must be truncated. Default 16 MiB; shells 64 MiB. */
  floodBytes: number
}

export const defaultLimits: Limits = {
  behaviourMs: 60_000,
  commandTimeoutMs: 400,
  lifetimeMs: 1500,
  bigFileBytes: 100 * 1024 * 1024,
  growthBytes: 64 * 1024 * 1024,
  floodBytes: 16 * 1024 * 1024,
}
