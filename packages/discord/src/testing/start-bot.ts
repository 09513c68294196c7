import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { openRegistry, type Registry } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import type { ProviderKind } from '@sandkasten/sdk/auto'
import { defineProviderKind } from '@sandkasten/sdk/auto'
import { LocalProvider } from '@sandkasten/sdk/local'
import { openThreads } from '@sandkasten/threads'
import { onTestFinished } from 'vitest'
import { type Bot, createBot } from '../bot/create-bot.ts'
import type { LogEntry } from '../bot/log.ts'
import { startTwin, type Twin, type TwinBot, type TwinChannel, type TwinOptions } from '../twin/index.ts'
import type { Pace } from '../writer/pace.ts'
import { ScriptedAgents } from './scripted-agents.ts'

export interface Stage {
  readonly twin: Twin
  readonly agents: ScriptedAgents
  readonly registry: Registry
  readonly provider: LocalProvider
  readonly kinds: readonly ProviderKind[]
  readonly dataDir: string
  readonly channel: TwinChannel
  readonly log: LogEntry[]
  readonly alive: { time: number | undefined }
  /** A bot on the same database; it is started and, at the end, closed. */
  startBot(bot?: TwinBot): Promise<Bot>
}

/** A twin of Discord, a real engine and registry, and sandboxes that are folders. No bot runs yet. */
export async function openStage({
  limits,
  pace,
}: TwinOptions & { pace?: Partial<Pace> } = {}): Promise<Stage> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'sk-discord-'))
  const provider = new LocalProvider({ root: path.join(dataDir, 'local'), acceptNoIsolation: true })
  const twin = await startTwin({ limits })
  const local: ProviderKind = { provider: 'local', title: 'Local', fields: [], make: () => provider }
  const kinds = [local, keyed]
  const registry = await openRegistry({ dataDir, kinds, defaultProvider: 'local', env: {} })
  const agents = new ScriptedAgents()
  const log: LogEntry[] = []
  const alive: Stage['alive'] = { time: undefined }
  const bots: Bot[] = []
  onTestFinished(async () => {
    for (const bot of bots) await bot.close()
    await registry.close()
    await twin.close()
    for (const { id } of await provider.list()) await provider.destroy(id)
    await rm(dataDir, { recursive: true, force: true })
  })
  return {
    ...{ twin, agents, registry, provider, kinds, dataDir, log, alive },
    channel: twin.guild('Workshop').channel('general'),
    async startBot({ token } = twin.mainBot) {
      const bot = await createBot({
        token,
        registry,
        kinds,
        api: twin.api,
        pace: { editEveryMs: 50, ...pace },
        alive: {
          read: async () => alive.time,
          write: async (time) => {
            alive.time = time
          },
        },
        open: ({ chat, appId }) =>
          openThreads({ appId, registry, agents, chat, dataDir, env: {}, lookMs: 50, retryMs: 20 }),
        onLog: (entry) => log.push(entry),
      })
      bots.push(bot)
      await bot.start()
      return bot
    },
  }
}

/** A provider that accepts one key, for `/sandbox-setup`. */
const keyed = defineProviderKind({
  provider: 'keyed',
  title: 'Keyed Sandboxes',
  fields: {
    apiKey: { description: 'an API key', secret: true },
    region: { description: 'where sandboxes run' },
    one: { description: 'first' },
    two: { description: 'second' },
    three: { description: 'third' },
    four: { description: 'fourth' },
  },
  alternatives: [['apiKey']],
  make: ({ apiKey }) => {
    const local = new LocalProvider({ root: '/nonexistent', acceptNoIsolation: true })
    return Object.assign(Object.create(local), {
      name: 'keyed',
      healthCheck: async () => {
        if (apiKey === 'the-right-key') return true
        // A vendor that repeats what it was sent.
        throw new SandboxError('unauthenticated', `The key ${apiKey} was refused.`)
      },
    })
  },
})

/** The member who manages the server. */
export function manager(channel: TwinChannel) {
  return channel.user('Maria', { permissions: ['ManageGuild', 'SendMessages', 'ViewChannel'] })
}
