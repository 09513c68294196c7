export { defaultAllowedCommands } from './allow-list.ts'
export type { CommandResult, ExecuteOptions, SandboxExecutor } from './executor.ts'
export { type GetSandboxExecutorOptions, getSandboxExecutor } from './get-executor.ts'
export { LocalSandboxExecutor, type LocalSandboxExecutorOptions } from './local-executor.ts'
export {
  type ExecutorProvider,
  ProviderSandboxExecutor,
  type ProviderSandboxExecutorOptions,
} from './provider-executor.ts'
export { VercelSandboxExecutor, type VercelSandboxExecutorOptions } from './vercel-executor.ts'
