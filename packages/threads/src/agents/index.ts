export { type Agents, initializeOpencodeForDirectory, type OpencodeAccess, openAgents } from './agents.ts'
export { type AgentModeSetting, chooseMode, type ModeChoice, type ModeFacts } from './mode.ts'
export type { AgentBridge, AgentRequest, AgentsOptions, BridgeAddress } from './request.ts'
export { type ResolvedDirectory, resolvedDirectory } from './resolved-directory.ts'
