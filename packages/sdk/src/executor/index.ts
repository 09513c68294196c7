export { defaultAllowedCommands } from './allow-list.ts'
export type { ExecutorProvider } from './conversation.ts'
export type {
  CallOptions,
  CommandResult,
  ExecuteOptions,
  ExecuteResult,
  Opening,
  ReadOptions,
  SandboxExecutor,
} from './executor.ts'
export { type GetSandboxExecutorOptions, getSandboxExecutor } from './get-executor.ts'
export type { ExecutorKeepAliveOptions } from './kept-alive.ts'
export { LocalSandboxExecutor, type LocalSandboxExecutorOptions } from './local-executor.ts'
export { ProviderSandboxExecutor, type ProviderSandboxExecutorOptions } from './provider-executor.ts'
export * from './tools/index.ts'
export { VercelSandboxExecutor, type VercelSandboxExecutorOptions } from './vercel-executor.ts'
