import { McpServer, type ServerContext } from '@modelcontextprotocol/server'
import { localCaller, type Seen, type ToolCaller, withNews } from '../calls/index.ts'
import type { SandboxSource } from '../sources/index.ts'
import { failure, type McpTool, type ToolResult, tools } from '../tools/index.ts'
import { openHostFile } from './host-file.ts'

export interface SandboxServerOptions {
  /** Folders of this machine from which `upload_file` may read. Default: none. */
  readonly allowFolders?: readonly string[]
  /** Shared by the servers of one agent, so that it is told once that its sandbox was started again. */
  readonly seen?: Seen
  /** A further signal for one request; see `cancellation.ts`. */
  readonly cancelled?: (requestId: string | number) => AbortSignal | undefined
}

/** An MCP server with the tools of one sandbox. Serve it with `serveStdio` or `serveHttp`. */
export function createSandboxServer(
  sandbox: SandboxSource | ToolCaller,
  options: SandboxServerOptions = {},
): McpServer {
  const caller = 'call' in sandbox ? sandbox : localCaller(sandbox)
  const seen = options.seen ?? {}
  const server = new McpServer({ name: 'sandbox', title: 'Sandkasten', version }, { instructions })
  for (const tool of tools) {
    const { title, description, input, readOnly } = tool
    server.registerTool(
      tool.name,
      {
        title,
        description,
        inputSchema: input,
        _meta: { 'anthropic/alwaysLoad': true },
        annotations: { readOnlyHint: readOnly, destructiveHint: !readOnly, openWorldHint: false },
      },
      async (given: unknown, context: ServerContext) => {
        const cancelled = options.cancelled?.(context.mcpReq.id)
        const signal = cancelled ? AbortSignal.any([context.mcpReq.signal, cancelled]) : context.mcpReq.signal
        const result = await called({ tool, given, signal, context, caller, seen, options })
        return wireResult(result)
      },
    )
  }
  return server
}

/**
 * No structured content: Claude Code shows it to the model instead of the text, as JSON on one line, and without the
 * note that the sandbox was started again.
 */
function wireResult({ content, isError, facts }: ToolResult) {
  return {
    content: [...content],
    ...(isError && { isError }),
    ...(facts && { _meta: { 'sandkasten/facts': { ...facts } } }),
  }
}

interface Call {
  readonly tool: McpTool
  readonly given: unknown
  readonly signal: AbortSignal
  readonly context: ServerContext
  readonly caller: ToolCaller
  readonly seen: Seen
  readonly options: SandboxServerOptions
}

async function called({ tool, given, signal, context, caller, seen, options }: Call): Promise<ToolResult> {
  const onProgress = progressOf(context)
  if (tool.name !== 'upload_file')
    return withNews(await caller.call(tool.name, given, { signal, onProgress }), seen)
  // The server that the agent has started reads the file, with the rights of the agent's user.
  const { localPath } = given as { localPath: string }
  const opened = await openHostFile(localPath, options.allowFolders ?? [])
  if ('problem' in opened) return failure(opened.problem)
  await using hostFile = opened
  return withNews(await caller.call(tool.name, given, { signal, onProgress, hostFile }), seen)
}

/** Progress notifications, if the client has asked for them. They also keep its timeout from ending the call. */
function progressOf({ mcpReq }: ServerContext): (message: string) => void {
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return () => {}
  let progress = 0
  return (message) => {
    progress += 1
    const params = { progressToken, progress, message }
    // A client that has gone away ends the call by its signal.
    mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {})
  }
}

/** The version of this interface. */
const version = '1.0.0'

const instructions =
  'These tools work in a sandbox: an isolated computer with its own files, programs and ports. Nothing that you do there affects the machine of the user. Relative paths start in the project folder of the sandbox.'
