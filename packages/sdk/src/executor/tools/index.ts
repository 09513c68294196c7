export type { ToolInputSchema, ToolProperty } from './input.ts'
export { type SandboxTool, type SandboxToolsOptions, sandboxTools } from './tools.ts'
