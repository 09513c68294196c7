export { type Agent, type AgentName, agents, type ServerAgentName } from './agents/index.ts'
export { bootstrapAgent, bootstrapOpencode } from './bootstrap/bootstrap.ts'
export type {
  AgentServer,
  BootstrapOpencodeOptions,
  BootstrapOptions,
  InstalledAgent,
} from './bootstrap/options.ts'
export type { BootstrapProgress, BootstrapStage } from './bootstrap/progress.ts'
export { OPENCODE_PORT } from './bootstrap/settings.ts'
export type { AgentCredential } from './credentials.ts'
export { type ModelAddress, modelNetwork, modelUrl } from './network.ts'
export type { AgentEvent } from './run/events.ts'
export { type AgentRun, type RunAgentOptions, runAgent } from './run/run-agent.ts'
export {
  type PermissionRule,
  type SandboxOnly,
  type SandboxOnlyOptions,
  sandboxOnly,
} from './sandbox-only.ts'
export { type Health, type WaitForHealthOptions, waitForHealth } from './server/health.ts'
export { type OpenWorktreeOptions, openWorktree, type Worktree } from './worktrees.ts'
