import {
  addMcpServer,
  type OpencodeSession,
  type OpenSessionOptions,
  openSession,
  type SessionServer,
} from '@sandkasten/opencode/session'
import { SandboxError } from '@sandkasten/sdk'
import type { AgentMode, ThreadAgent } from '../spec/agent.ts'
import { HomeServer } from './home/home-server.ts'
import { type HomeThread, openHomeThread } from './home/home-thread.ts'
import { directoryInside, serverInside } from './inside.ts'
import { mcpConfig } from './mcp-config.ts'
import { chooseMode, type ModeChoice } from './mode.ts'
import type { AgentRequest, AgentsOptions, BridgeAddress } from './request.ts'
import { type ResolvedDirectory, resolvedDirectory } from './resolved-directory.ts'
import { SessionAgent } from './session-agent.ts'

/** Opens the agents of a bot’s threads. */
export interface Agents extends AsyncDisposable {
  /** Where the agent of a new thread runs. */
  choose(request: Pick<AgentRequest, 'sandbox' | 'mode'>): ModeChoice
  /** Opens the agent: its server, its tools, its session. A session that is gone is replaced by a new one. */
  open(request: AgentRequest): Promise<ThreadAgent>
  /** Ends opencode at home. Sessions stay on the disk. */
  close(): Promise<void>
}

/** The way to the server of an agent, as long as it is open. */
export interface OpencodeAccess extends SessionServer {
  readonly mode: AgentMode
}

export function openAgents(options: AgentsOptions): Agents {
  const home = new HomeServer(options)
  const agents: Agents = {
    choose: ({ sandbox: { handle }, mode }) =>
      chooseMode(
        { provider: handle.provider, capabilities: handle.capabilities },
        mode ?? options.mode ?? 'auto',
      ),
    async open(request) {
      const { mode } = agents.choose(request)
      return mode === 'inside' ? openInside(request, options) : openHome(request, options, home)
    },
    close: () => home.close(),
    [Symbol.asyncDispose]: () => home.close(),
  }
  return agents
}

/**
 * Makes opencode ready for the folder of a thread, and returns a function with the way to it. Inside the sandbox, this is
 * the server’s own address, password and folder. At home, it is the local server with an empty folder of the thread.
 */
export async function initializeOpencodeForDirectory(
  resolved: ResolvedDirectory,
  {
    mode,
    request,
    options,
    home,
  }: {
    readonly mode: AgentMode
    readonly request: AgentRequest
    readonly options: AgentsOptions
    readonly home?: HomeThread
  },
): Promise<() => OpencodeAccess> {
  if (mode === 'home') {
    if (!home) throw new SandboxError('invalid_argument', 'An agent at home needs a folder at home.')
    const { server } = home
    return () => ({ mode, ...server })
  }
  if (!resolved.sandbox)
    throw new SandboxError('invalid_argument', 'An agent inside needs a sandbox.', {
      hint: 'Attach the thread to a sandbox first.',
    })
  const server = await serverInside(resolved, request, options)
  return () => ({ mode, ...server })
}

async function openInside(request: AgentRequest, options: AgentsOptions): Promise<ThreadAgent> {
  const { threadId, sandbox, sessionId, title, signal } = request
  const { path, problem } = await directoryInside(request)
  if (problem !== undefined) options.onProblem?.(threadId, problem)
  const resolved = resolvedDirectory(sandbox, { workingDirectory: path })
  const access = await initializeOpencodeForDirectory(resolved, { mode: 'inside', request, options })
  const server = access()
  const bridge = await connectBridge(request, options, server)
  const session = await openOrReplace(server, { sessionId, title, signal })
  return new SessionAgent({
    mode: 'inside',
    session,
    ...defaultModel(options.model, options.config),
    ...(bridge && { close: async () => bridge[Symbol.asyncDispose]() }),
  })
}

/** Without its bridge an agent works, too. */
async function connectBridge(
  { threadId, sandbox, signal }: AgentRequest,
  { bridge, onProblem }: AgentsOptions,
  server: SessionServer,
): Promise<BridgeAddress | undefined> {
  if (!bridge) return undefined
  let address: BridgeAddress | undefined
  try {
    address = await bridge.inSandbox(threadId, sandbox.handle, server.directory)
    await addMcpServer(server, 'thread', mcpConfig(address), { signal })
    return address
  } catch (error) {
    await address?.[Symbol.asyncDispose]()
    if (signal?.aborted) throw error
    const reason = error instanceof Error ? error.message : String(error)
    onProblem?.(threadId, `The agent cannot send files or ask questions: ${reason}`)
    return undefined
  }
}

async function openHome(
  request: AgentRequest,
  options: AgentsOptions,
  home: HomeServer,
): Promise<ThreadAgent> {
  const { sandbox, sessionId, forkOf, title, signal } = request
  await using stack = new AsyncDisposableStack()
  const thread = await openHomeThread(request, options, home)
  stack.defer(() => thread.close())
  const resolved = resolvedDirectory(sandbox)
  const access = await initializeOpencodeForDirectory(resolved, {
    mode: 'home',
    request,
    options,
    home: thread,
  })
  const session = await openOrReplace(access(), {
    sessionId,
    forkOf,
    title,
    permission: thread.permission,
    signal,
  })
  stack.move()
  return new SessionAgent({
    mode: 'home',
    session,
    ...defaultModel(options.model, options.homeConfig ?? options.config),
    system: `Your tools work in a sandbox. The project is in ${resolved.projectDirectory} there.`,
    close: () => thread.close(),
  })
}

function defaultModel(model: string | undefined, config: AgentsOptions['config']): { defaultModel?: string } {
  const found = model ?? config?.model
  return typeof found === 'string' ? { defaultModel: found } : {}
}

/** The session may be gone with the disk that it was on. */
async function openOrReplace(
  server: SessionServer,
  { sessionId, forkOf, ...rest }: OpenSessionOptions,
): Promise<OpencodeSession> {
  try {
    return await openSession(server, { ...rest, sessionId, forkOf })
  } catch (error) {
    if ((sessionId ?? forkOf) === undefined || !SandboxError.is(error, 'not_found')) throw error
    return openSession(server, rest)
  }
}
