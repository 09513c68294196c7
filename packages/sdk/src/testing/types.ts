import type {
  Ability,
  Capabilities,
  CreateOption,
  CreateSandboxOpts,
  GetSandboxOpts,
  SandboxCore,
  SandboxHandle,
  SandboxProvider,
  SandboxProviderCore,
} from '../spec/index.ts'
import type { CommandKit, OptionalProgram } from './command-kit.ts'
import type { Trial } from './trial.ts'

/** One thing that a user can see a provider do. Behaviours are data: list them, count them, choose from them. */
export interface Behaviour {
  readonly id: string
  readonly group: string
  /** A sentence about what a user sees. */
  readonly name: string
  /** Where one of these is absent, its methods must throw `unsupported` instead. */
  readonly needs?: readonly Ability[]
  /** Where the provider does not declare one of these options of `create`, giving it must throw `unsupported` instead. */
  readonly options?: readonly CreateOption[]
  /** A program that not every sandbox has. */
  readonly program?: OptionalProgram
  run(trial: Trial): Promise<void>
}

/** A behaviour before it is told its group. */
export type Draft = Omit<Behaviour, 'group'>

export function group(name: string, drafts: readonly Draft[]): Behaviour[] {
  return drafts.map((draft) => ({ ...draft, group: name }))
}

/** Handles and providers as behaviours use them: everything is there, and what is absent throws. */
export type AnySandbox = SandboxHandle
export type AnyProvider = SandboxProvider

/** A provider with any abilities. */
export interface ProviderUnderTest
  extends Pick<
    SandboxProviderCore,
    'name' | 'isolation' | 'createOptions' | 'list' | 'destroy' | 'healthCheck'
  > {
  readonly capabilities: Capabilities
  create(options?: CreateSandboxOpts): Promise<SandboxCore>
  get(sandboxId: string, options?: GetSandboxOpts): Promise<SandboxCore>
  getOrCreate(options: never): Promise<SandboxCore>
}

export interface ConformanceOptions {
  /** Called once; all behaviours share the provider. */
  provider: () => ProviderUnderTest | Promise<ProviderUnderTest>
  /** The programs that the sandboxes can run. Default `posixCommands()`. */
  commands?: CommandKit | (() => CommandKit)
  /** Another provider object over the same sandboxes, as another process would have: for what survives a restart. */
  reopen?: () => ProviderUnderTest | Promise<ProviderUnderTest>
  /** Why an optional program, or a look from outside, is not there; each one that is missing must be explained. */
  without?: { readonly [What in OptionalProgram | 'reopen' | 'leftovers']?: string }
  /** What is left of a sandbox on the machine that runs it (processes, folders), seen from outside it. */
  leftovers?: (sandboxId: string) => Promise<readonly string[]> | readonly string[]
  /** Only these: ids, groups, or a question. */
  only?: readonly string[] | ((behaviour: Behaviour) => boolean)
  limits?: Partial<Limits>
}

export interface Limits {
  /** How long one behaviour may take before it counts as hung. Default 60 s. */
  behaviourMs: number
  /** The `timeoutMs` of commands that are to run into it. Default 400. */
  commandTimeoutMs: number
  /** The lifetime of sandboxes that are to expire. Default 1500. */
  lifetimeMs: number
  /** Size of the file that is streamed both ways. Default 100 MiB. */
  bigFileBytes: number
  /** How much this process may grow while that is done, or while a reader is slow. Default 64 MiB. */
  growthBytes: number
  /** Output of the command that is to be truncated. Default 16 MiB; shells 64 MiB. */
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
