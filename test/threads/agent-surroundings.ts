import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { EngineProvider } from '@sandkasten/engine'
import { modelNetwork, modelUrl } from '@sandkasten/opencode'
import { type NamedSandbox, openRegistry, type Registry } from '@sandkasten/registry'
import {
  type AgentAnswer,
  type AgentRequest,
  type Agents,
  type AgentsOptions,
  newMessageId,
  openAgents,
  type ThreadAgent,
} from '@sandkasten/threads'
import {
  type ModelServer,
  modelConfig,
  startModelServer,
} from '../../packages/opencode/src/testing/model-server.ts'

/** A registry with one engine sandbox, whose network has the scripted model and nothing else. */
export interface AgentSurroundings {
  readonly model: ModelServer
  readonly registry: Registry
  readonly sandbox: NamedSandbox
  readonly homeFolder: string
  /** Like a bot that starts. */
  agents(options?: Partial<AgentsOptions>): Agents
  request(threadId: string, more?: Partial<AgentRequest>): AgentRequest
  close(): Promise<void>
}

export async function agentSurroundings(): Promise<AgentSurroundings> {
  await using stack = new AsyncDisposableStack()
  const root = await mkdtemp(path.join(tmpdir(), 'sk-agents-'))
  stack.defer(() => rm(root, { recursive: true, force: true, maxRetries: 5 }))
  const model = await startModelServer()
  stack.defer(() => model.close())
  const provider = new EngineProvider({ root: path.join(root, 'engine'), prepareNext: false })
  stack.defer(() => provider.close())
  const kind = { provider: provider.name, title: 'Engine', fields: [], make: () => provider }
  const registry = await openRegistry({
    dataDir: root,
    kinds: [kind],
    defaultProvider: provider.name,
    env: {},
  })
  stack.defer(() => registry.close())
  const sandboxes = registry.in()
  const resources = { memoryMb: 2048, vcpus: 2 }
  const sandbox = await sandboxes.create({ name: 'web', network: modelNetwork(model), resources })
  stack.defer(async () => void (await sandboxes.destroy('web', { force: true })))
  const commit = 'git add . && git -c user.name=t -c user.email=t@example.com commit -qm first'
  const line = `git init -q . && echo before > file.txt && ${commit}`
  const { exitCode, stderr } = await sandbox.handle.runCommand({ cmd: 'sh', args: ['-c', line] })
  if (exitCode !== 0) throw new Error(stderr)
  const homeFolder = path.join(root, 'threads', 'home')
  const owned = stack.move()
  return {
    model,
    registry,
    sandbox,
    homeFolder,
    agents: (options) =>
      openAgents({
        homeFolder,
        config: modelConfig(modelUrl(model)),
        homeConfig: modelConfig(model.url),
        ...options,
      }),
    request: (threadId, more) => ({ threadId, sandboxes, sandbox, ...more }),
    close: () => owned.disposeAsync(),
  }
}

/** Sends a message and collects the states of its answer. */
export async function ask(
  agent: ThreadAgent,
  text: string,
  onState: (answer: AgentAnswer) => Promise<void> | void = () => {},
): Promise<{ id: string; states: AgentAnswer[]; last: AgentAnswer }> {
  const id = newMessageId()
  await agent.prompt({ id, text, files: [] })
  const states: AgentAnswer[] = []
  for await (const state of agent.answer(id)) {
    states.push(state)
    await onState(state)
  }
  return { id, states, last: states.at(-1)! }
}

/** What users see of an answer. */
export function shown({ blocks }: AgentAnswer): string[] {
  return blocks.map((block) => {
    if (block.type === 'text') return block.text
    if (block.type === 'tool') return `${block.tool} ${block.status}: ${block.title}`
    if (block.type === 'diff') return 'diff'
    return block.type
  })
}

export async function statesOf(answer: AsyncIterable<AgentAnswer>): Promise<AgentAnswer[]> {
  const states: AgentAnswer[] = []
  for await (const state of answer) states.push(state)
  return states
}
