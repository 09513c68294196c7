import { EventEmitter } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createClock } from './clock.ts'
import type { Core } from './core.ts'
import { type Counters, createCounters } from './counters.ts'
import { createEventFaults, type EventFaults } from './faults/events.ts'
import { createRequestFaults, type RequestFaults } from './faults/requests.ts'
import { createGateway, type Gateway } from './gateway/server.ts'
import { defaultLimits, type TwinLimits } from './limits.ts'
import { routes } from './rest/routes/index.ts'
import { createRestServer } from './rest/server.ts'
import { createBot, createGuild, inviteBot } from './state/guilds.ts'
import { createIds } from './state/ids.ts'
import { bits } from './state/permissions.ts'
import { createWorld } from './state/world.ts'
import { DEFAULT_BOT_PERMISSIONS, type TwinBot, TwinGuild } from './users/guild.ts'
import { type WaitOptions, waitFor } from './users/wait.ts'

export interface TwinOptions {
  /** 0, the default, chooses a free port. */
  readonly port?: number
  readonly limits?: Partial<TwinLimits>
}

/** A running twin. */
export interface Twin {
  /** For discord.js: `new Client({ rest: { api: twin.api, version: '10' } })`. */
  readonly api: string
  /** The token of the first bot, which is a member of each new guild. */
  readonly token: string
  /** The first bot. */
  readonly mainBot: TwinBot
  readonly counters: Counters
  /** Limits may be changed while the twin runs. */
  readonly limits: TwinLimits
  readonly faults: { readonly requests: RequestFaults; readonly events: EventFaults }
  readonly gateway: Pick<
    Gateway,
    'drop' | 'cut' | 'invalidateSessions' | 'requestReconnect' | 'setZombie' | 'setAccepting' | 'connected'
  >
  readonly clock: { now(): number; advance(ms: number): void }
  /** The guild with this name; creates it, with all bots that exist, if it does not exist. */
  guild(name?: string, options?: { bots?: readonly TwinBot[] }): TwinGuild
  /** The bot with this name; creates it if it does not exist. A new bot is in no guild: see `TwinGuild.invite`. */
  bot(name: string): TwinBot
  /** Sets the privileged intents that a bot may use. All are on in the beginning. */
  setPrivilegedIntents(bot: TwinBot, intents: number): void
  /** Waits until a bot has a ready session. */
  waitForBot(bot?: TwinBot, options?: WaitOptions): Promise<void>
  /** Waits for any condition; it is checked after each change. */
  waitFor<T>(what: string, find: () => T | undefined | false, options?: WaitOptions): Promise<T>
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** Starts a digital twin of Discord on the loopback interface. */
export async function startTwin({ port = 0, limits: overrides = {} }: TwinOptions = {}): Promise<Twin> {
  const clock = createClock()
  const counters = createCounters()
  const defaults = defaultLimits()
  const limits = { ...defaults, ...overrides, buckets: { ...defaults.buckets, ...overrides.buckets } }
  const requests = createRequestFaults(routes.map(({ name }) => name))
  const events = createEventFaults()
  const gateway = createGateway(() => core, events)
  const server = createRestServer(() => core, routes, requests)
  server.on('upgrade', (request, socket, head) => gateway.accept(request, socket, head))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const core: Core = {
    world: createWorld(),
    clock,
    limits,
    counters,
    newId: createIds(clock.now),
    changes: new EventEmitter<{ change: [channelId?: string] }>().setMaxListeners(0),
    publish: (event) => gateway.publish(event),
    origin,
  }
  const { world } = core
  const mainBot = createBot(core, 'sandkasten')

  async function close(): Promise<void> {
    clock.close()
    await gateway.close()
    server.closeAllConnections()
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }

  return {
    api: `${origin}/api`,
    token: mainBot.token,
    mainBot,
    counters,
    limits,
    faults: { requests, events },
    gateway,
    clock,
    guild(name = 'Workshop', { bots = [...world.bots.values()] } = {}) {
      const existing = [...world.guilds.values()].find((guild) => guild.name === name)
      if (existing) return new TwinGuild(core, existing)
      const guild = createGuild(core, name)
      for (const { id } of bots) inviteBot(core, guild, world.bots.get(id)!, bits(DEFAULT_BOT_PERMISSIONS))
      return new TwinGuild(core, guild)
    },
    bot: (name) => [...world.bots.values()].find((bot) => bot.name === name) ?? createBot(core, name),
    setPrivilegedIntents(bot, intents) {
      world.bots.get(bot.id)!.privilegedIntents = intents
    },
    async waitForBot(bot = mainBot, options) {
      const isConnected = () => gateway.connected().includes(bot.id)
      await waitFor(
        core,
        `the bot "${bot.name}" to connect`,
        isConnected,
        () => `connected: ${gateway.connected()}`,
        options,
      )
    },
    waitFor: (what, find, options) => waitFor(core, what, find, () => '(none)', options),
    close,
    [Symbol.asyncDispose]: close,
  }
}
