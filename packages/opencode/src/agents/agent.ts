import type { AgentEvent, RunContext } from '../run/events.ts'

/** What the environment of an agent's program depends on. */
export interface AgentContext {
  readonly folder: string
  readonly model: string | undefined
  readonly config: Readonly<Record<string, unknown>> | undefined
}

/** A server that the agent's program starts. */
export interface ServerSpec {
  args(port: number, hostname: string): string[]
  /** In its output once it accepts connections. */
  readonly listening: RegExp
  readonly user: string
  readonly userVariable: string
  readonly passwordVariable: string
}

/** One prompt without a terminal: through the agent's server, or as a program that reads the prompt from its stdin. */
export type Headless =
  | { readonly through: 'server'; run(context: RunContext): AsyncGenerator<AgentEvent, void> }
  | {
      readonly through: 'program'
      args(options: { model?: string; sessionId?: string }): string[]
      /** Reads one line of the program's stdout. */
      read(line: string): AgentEvent[]
    }

/** Everything that is special about one agent. A new agent is a new row. */
export interface Agent {
  readonly name: string
  /** For messages. */
  readonly title: string
  /** On npm. */
  readonly package: string
  /** Pinned: the tests run this version. */
  readonly version: string
  readonly program: string
  readonly versionArgs: readonly string[]
  /** Packages with the program for a platform, the best one first. */
  platformPackages(arch: 'x64' | 'arm64', musl: boolean, avx2: boolean): string[]
  readonly fileInPackage: string
  /** Places below the home where users install it, besides PATH. */
  readonly pathsInHome: readonly string[]
  /** Programs that the sandbox must have. */
  readonly needs: readonly string[]
  /** Takes credentials of several model providers, as JSON. */
  readonly authVariable?: string
  environment(context: AgentContext): Record<string, string>
  /** Below the home: what a snapshot has to keep so that sessions go on. */
  readonly stateFolders: readonly string[]
  readonly server?: ServerSpec
  readonly headless: Headless
  /** For a terminal of the sandbox. */
  interactiveArgs(options: { model?: string; sessionId?: string }): string[]
}
