import type { CallOptions, Environment } from '@sandkasten/sdk'
import type { AgentName } from '../agents/index.ts'
import type { AgentCredential } from '../credentials.ts'
import type { BootstrapProgress } from './progress.ts'

export interface BootstrapOptions extends CallOptions {
  /** Variables of the agent’s process. They win over the ones that this package sets. */
  envVars?: Environment
  /** The exact version of the agent. Default: the version that this package is tested with. */
  version?: string
  /** The port of the agent’s server in the sandbox. Default 7777. */
  port?: number
  /** The folder that the agent works in. It must exist. Default: the sandbox’s `workdir`. */
  cwd?: string
  /** The password of the agent’s server. Default: a random one. Pass it to find a server that runs. */
  password?: string
  /** The program on this machine to copy in. Default: the one of an installed npm package. */
  binary?: string
  /** Where the server listens. Default: on loopback, or everywhere if the provider does not reach loopback. */
  hostname?: '127.0.0.1' | '0.0.0.0'
  /** For opencode `provider/model`. */
  model?: string
  /** The configuration of opencode. It wins over the project’s own. */
  config?: Readonly<Record<string, unknown>>
  /** Credentials that the agent gets. Default: none. */
  credentials?: readonly AgentCredential[]
  /** Replace a server that runs on this port. Its prompts are lost. */
  restart?: boolean
  onProgress?: (progress: BootstrapProgress) => void
  /** For everything together. Default 180,000. */
  deadlineMs?: number
}

export interface BootstrapOpencodeOptions extends Omit<BootstrapOptions, 'version'> {
  /** The exact version of opencode. Default: the version that this package is tested with. */
  opencodeVersion?: string
}

/** An agent that is ready in a sandbox. */
export interface InstalledAgent {
  readonly agent: AgentName
  readonly version: string
  /** The program in the sandbox. */
  readonly binary: string
  /** The folder in the sandbox that the agent works in, without symbolic links. */
  readonly directory: string
}

/** An agent’s server that is ready in a sandbox. */
export interface AgentServer extends Omit<InstalledAgent, 'binary'> {
  /** Reaches the server from here. */
  readonly url: string
  readonly port: number
  readonly password: string
  /** Send these with every request: the password, and what the provider’s endpoint needs. */
  readonly headers: Readonly<Record<string, string>>
  /** Whether the server ran before. */
  readonly reused: boolean
  /** The client of `@opencode-ai/sdk/v2`, which the caller installs: `const client: OpencodeClient = await …`. */
  client<Client = unknown>(): Promise<Client>
  /** Ends the server and the programs that it has started. Sessions stay on the disk of the sandbox. */
  stop(options?: CallOptions): Promise<void>
}
