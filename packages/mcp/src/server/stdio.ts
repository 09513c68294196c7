import { serveStdio as serve } from '@modelcontextprotocol/server/stdio'
import type { ToolCaller } from '../calls/index.ts'
import type { SandboxSource } from '../sources/index.ts'
import { createSandboxServer, type SandboxServerOptions } from './server.ts'

/** Serves the tools on stdin and stdout of this process, until the agent closes stdin. */
export function serveStdio(
  sandbox: SandboxSource | ToolCaller,
  options: SandboxServerOptions = {},
): { close(): Promise<void> } {
  const seen = options.seen ?? {}
  return serve(() => createSandboxServer(sandbox, { ...options, seen }), {
    onerror: (error) => console.error(`sandkasten mcp: ${error.message}`),
  })
}
