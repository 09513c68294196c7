import { randomBytes } from 'node:crypto'
import path from 'node:path'
import { registrySource, serveHttp } from '@sandkasten/mcp'
import { type PermissionRule, sandboxOnly } from '@sandkasten/opencode'
import { addMcpServer, type SessionServer } from '@sandkasten/opencode/session'
import { nameOf } from '../inside.ts'
import { mcpConfig } from '../mcp-config.ts'
import type { AgentRequest, AgentsOptions } from '../request.ts'
import { type HomeServer, homeTools } from './home-server.ts'

/** What one thread has at home: an empty folder, and the tools of its sandbox. */
export interface HomeThread {
  readonly server: SessionServer
  /** Only the tools of this thread: they are added to its folder, and no other thread works there. */
  readonly permission: readonly PermissionRule[]
  close(): Promise<void>
}

/** The tools are served by this process, so a restarted bot adds them again under new addresses. */
export async function openHomeThread(
  { threadId, sandboxes, sandbox: { record }, signal }: AgentRequest,
  { bridge }: AgentsOptions,
  home: HomeServer,
): Promise<HomeThread> {
  await using stack = new AsyncDisposableStack()
  const address = await home.address()
  const { directory, permission } = await sandboxOnly({
    directory: path.join(home.folder, 'threads', nameOf(threadId)),
    alsoAllow: homeTools,
  })
  const server: SessionServer = { ...address, directory }
  const token = randomBytes(32).toString('base64url')
  const source = registrySource(sandboxes, { name: record.name, id: record.id, threadId })
  stack.use(source)
  const tools = await serveHttp(source, { token })
  stack.use(tools)
  await addMcpServer(server, 'sandbox', mcpConfig({ url: tools.url, token }), { signal })
  if (bridge) {
    const thread = await bridge.atHome(threadId, (work, both) =>
      source.use(
        ({ handle, directory: project, signal: ended }) =>
          work(handle, project, AbortSignal.any([both, ended])),
        { signal: both, repeatable: true },
      ),
    )
    stack.use(thread)
    await addMcpServer(server, 'thread', mcpConfig(thread), { signal })
  }
  const owned = stack.move()
  return { server, permission, close: () => owned.disposeAsync() }
}
