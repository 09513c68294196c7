import { type CallOptions, SandboxError } from '@sandkasten/sdk'
import { callServer, type SessionServer } from './call.ts'
import { fieldsOf, lineOf } from './read.ts'

/** Adds an MCP server for sessions of this directory. A later call with the same name replaces it. */
export async function addMcpServer(
  server: SessionServer,
  name: string,
  config: Readonly<Record<string, unknown>>,
  { signal }: CallOptions = {},
): Promise<void> {
  const body = { name, config }
  const { value } = await callServer(server, { method: 'POST', path: 'mcp', body, signal })
  const { status, error } = fieldsOf(fieldsOf(value)[name])
  if (status !== 'connected')
    throw new SandboxError(
      'unavailable',
      `opencode is not connected to the tools “${name}”: ${lineOf(error ?? status, 300)}.`,
    )
}
