export { type AgentName, type AgentSettings, agents, type ServerCommand } from './agents.ts'
export { type Installed, type InstallOptions, install, printed } from './install.ts'
