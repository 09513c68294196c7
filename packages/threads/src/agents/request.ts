import type { AgentCredential } from '@sandkasten/opencode'
import type { NamedSandbox, ScopedRegistry } from '@sandkasten/registry'
import type { Environment, SandboxHandle } from '@sandkasten/sdk'
import type { UseSandbox } from '../bridge/index.ts'
import type { AgentMode } from '../spec/agent.ts'
import type { AgentModeSetting } from './mode.ts'

/** The same for all agents of a bot. */
export interface AgentsOptions {
  /** A private folder for opencode at home. Only one process at a time uses it. */
  readonly homeFolder: string
  /** Default `auto`. */
  readonly mode?: AgentModeSetting
  /** opencode’s configuration: its models, its permissions. */
  readonly config?: Readonly<Record<string, unknown>>
  /** The same for opencode at home, if its models have other addresses there. Default: `config`. */
  readonly homeConfig?: Readonly<Record<string, unknown>>
  /** Default model, `provider/model`. */
  readonly model?: string
  /** Credentials that agents get. With `secret`, agents inside get a placeholder; agents at home need the value. */
  readonly credentials?: readonly AgentCredential[]
  readonly homeCredentials?: readonly AgentCredential[]
  /** Variables of opencode inside. */
  readonly envVars?: Environment
  /** opencode’s program on this machine, to copy into sandboxes and to start at home. Default: that of its package. */
  readonly binary?: string
  /** What agents may ask of their thread. */
  readonly bridge?: AgentBridge
  /** Told to people: something is missing, and the agent works without it. */
  readonly onProblem?: (threadId: string, message: string) => void
}

/** MCP tools of one thread. */
export interface AgentBridge {
  /** For an agent at home. `useSandbox` reads the files that it sends. */
  atHome(threadId: string, useSandbox: UseSandbox): Promise<BridgeAddress>
  /** Reachable from programs in the sandbox, until the address is disposed. */
  inSandbox(threadId: string, handle: SandboxHandle, directory: string): Promise<BridgeAddress>
}

export interface BridgeAddress extends AsyncDisposable {
  readonly url: string
  readonly token: string
}

export interface AgentRequest {
  readonly threadId: string
  readonly sandboxes: ScopedRegistry
  /** It runs. The caller holds it while the agent is open. */
  readonly sandbox: NamedSandbox
  /** Of an earlier `open` for this thread. */
  readonly mode?: AgentMode
  readonly sessionId?: string
  /** At home: the session begins as a copy of this one, if it has none of its own. */
  readonly forkOf?: string
  readonly directory?: string
  /** The title of a new session. Default: the agent’s model finds one. */
  readonly title?: string
  /** Whether other threads work in the sandbox, too. The agent then gets a worktree. */
  readonly isShared?: boolean
  /** Told to people while the agent starts. */
  readonly onProgress?: (message: string) => void
  readonly signal?: AbortSignal
}
