import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import type { McpPlace } from './place.ts'

export interface Agent extends AsyncDisposable {
  /** Of the agent’s side. */
  readonly pid: number
  call(name: string, input?: object): Promise<{ text: string; isError: boolean }>
}

/** An MCP client that has started the agent’s side. */
export async function connectAgent({ server }: McpPlace, args: readonly string[] = []): Promise<Agent> {
  const transport = new StdioClientTransport({ ...server, args: [...server.args, ...args] })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(transport)
  return {
    pid: transport.pid!,
    async call(name, input = {}) {
      const result = await client.callTool({ name, arguments: { ...input } })
      const parts = result.content as Array<{ text?: string }>
      return { text: parts.map(({ text }) => text ?? '').join('\n'), isError: result.isError === true }
    },
    [Symbol.asyncDispose]: () => client.close(),
  }
}
