export type { CalledTool, CallToolOptions, Seen, ToolCaller } from './calls/index.ts'
export { type HttpServerOptions, type SandboxHttpServer, serveHttp } from './server/http.ts'
export { createSandboxServer, type SandboxServerOptions } from './server/server.ts'
export { serveStdio } from './server/stdio.ts'
export {
  type HandleSourceOptions,
  handleSource,
  type Incarnation,
  type OpenSandbox,
  type RegistrySourceOptions,
  registrySource,
  type SandboxSource,
  type SandboxState,
  type StateOptions,
  type UseOptions,
} from './sources/index.ts'
export type { HostFile, ToolContent, ToolResult } from './tools/index.ts'
