/** The bot as a process of its own, as `sandkasten discord` runs it. Its argument: `BotTask` as JSON. */
import path from 'node:path'
import { createBot } from '@sandkasten/discord'
import { EngineProvider } from '@sandkasten/engine'
import { modelNetwork, modelUrl } from '@sandkasten/opencode'
import { openRegistry } from '@sandkasten/registry'
import type { SandboxProvider } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { agentOpener, openAgents, openThreads } from '@sandkasten/threads'
import { aliveIn } from '../../packages/cli/src/discord/alive.ts'
import { modelConfig } from '../../packages/opencode/src/testing/model-server.ts'
import { ScriptedAgents } from '../../packages/threads/src/testing/scripted-agents.ts'

export interface BotTask {
  readonly dataDir: string
  readonly token: string
  readonly api: string
  /** With a model: opencode in sandboxes of the engine. Without: agents that follow a script, in folders. */
  readonly modelUrl?: string
  /** How long a scripted agent works. */
  readonly workMs?: number
}

const task = JSON.parse(process.argv[2]!) as BotTask
const { dataDir, token, api } = task
const provider = providerIn(task)
const kinds = [{ provider: provider.name, title: 'Sandboxes', fields: [], make: () => provider }]
const limits = { perGuild: 1000, perChannel: 1000 }
const registry = await openRegistry({ dataDir, kinds, defaultProvider: provider.name, env: {}, limits })
const bot = await createBot({
  ...{ token, api, registry, kinds },
  alive: aliveIn(path.join(dataDir, 'discord')),
  open: ({ chat, appId }) =>
    openThreads({
      ...{ appId, chat, registry, dataDir, agents: agentsOf(task), env: {}, lookMs: 200 },
      limits: { threadsPerUser: 1000, threadsPerGuild: 1000, queuedMessages: 200 },
      ...(task.modelUrl !== undefined && {
        sandboxDefaults: {
          network: modelNetwork({ url: task.modelUrl }),
          resources: { memoryMb: 1536, vcpus: 2 },
        },
      }),
    }),
  onLog: ({ level, text }) => console.log(`${level}: ${text}`),
})
await bot.start()
process.send?.('ready')
process.on('message', (question) => {
  if (question !== 'memory') return
  global.gc?.()
  process.send?.({ memory: process.memoryUsage() })
})
process.on('disconnect', () => process.exit())

function providerIn({ dataDir: folder, modelUrl: url }: BotTask): SandboxProvider {
  return url === undefined
    ? new LocalProvider({ root: path.join(folder, 'local'), acceptNoIsolation: true })
    : new EngineProvider({ root: path.join(folder, 'engine'), prepareNext: false })
}

function agentsOf({ dataDir: folder, modelUrl: url, workMs = 60 }: BotTask) {
  if (url === undefined) return new ScriptedAgents(path.join(folder, 'agents'), { workMs })
  const config = modelConfig(modelUrl({ url }))
  return agentOpener(openAgents({ homeFolder: path.join(folder, 'home'), mode: 'inside', config }))
}
