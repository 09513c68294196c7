import { McpServer, type ServerContext } from '@modelcontextprotocol/server'
import { SandboxError } from '@sandkasten/sdk'
import { limits } from './limits.ts'
import { type BridgeContext, type BridgeTool, tools } from './tools.ts'

const version = '1.0.0'
const instructions = 'These tools reach the user in the chat of this conversation.'

/** An MCP server with the tools of one thread. `closed` aborts when the agent’s request is gone. */
export function createBridgeServer(thread: Omit<BridgeContext, 'signal'>, closed: AbortSignal): McpServer {
  const server = new McpServer({ name: 'thread', title: 'Sandkasten', version }, { instructions })
  for (const tool of tools) {
    const { title, description, input } = tool
    server.registerTool(
      tool.name,
      { title, description, inputSchema: input },
      async (given: unknown, context: ServerContext) => {
        const signal = AbortSignal.any([context.mcpReq.signal, closed])
        return called(tool, given, { ...thread, signal }, context)
      },
    )
  }
  return server
}

async function called(tool: BridgeTool, given: unknown, context: BridgeContext, { mcpReq }: ServerContext) {
  const limit = AbortSignal.timeout(tool.timeoutMs)
  const signal = AbortSignal.any([context.signal, limit])
  const token = mcpReq._meta?.progressToken
  let progress = 0
  // An agent ends a call that says nothing for minutes.
  const beat = setInterval(() => {
    if (token === undefined) return
    progress += 1
    const params = { progressToken: token, progress, message: `waits in ${tool.name}` }
    mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {})
  }, limits.progressMs)
  try {
    const input = tool.input.parse(given ?? {})
    const text = await tool.run(input, { ...context, signal })
    return { content: [{ type: 'text' as const, text: text.slice(0, limits.responseBytes / 4) }] }
  } catch (error) {
    return { content: [{ type: 'text' as const, text: `Error: ${reasonOf(error, limit)}` }], isError: true }
  } finally {
    clearInterval(beat)
  }
}

/** Other errors may have details of this machine. */
function reasonOf(error: unknown, limit: AbortSignal): string {
  if (limit.aborted) return 'There was no answer in time. Continue without it, or ask again later.'
  if (SandboxError.is(error)) return error.message
  console.error('sandkasten threads: a tool of the thread failed:', error)
  return 'The tool failed.'
}
