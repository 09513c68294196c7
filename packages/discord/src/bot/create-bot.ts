import type { Registry } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import type { ProviderKind } from '@sandkasten/sdk/auto'
import type { Chat, Threads } from '@sandkasten/threads'
import type { Client } from 'discord.js'
import { Autocomplete } from '../autocomplete/autocomplete.ts'
import type { ControlPlace } from '../controls/control.ts'
import { Refusals } from '../messages/refusals.ts'
import { Messages } from '../rest/messages.ts'
import { identityOf } from '../setup/identity.ts'
import type { Pace } from '../writer/pace.ts'
import { Writer } from '../writer/writer.ts'
import { DiscordChat } from './chat.ts'
import { clientOf } from './client.ts'
import { Events } from './events.ts'
import { Interactions } from './interactions.ts'
import { type Log, reasonOf } from './log.ts'
import { Openings } from './openings.ts'
import { registerCommands } from './register.ts'
import { transportOf } from './transport.ts'

export interface BotOptions {
  readonly token: string
  readonly registry: Registry
  /** Providers that `/sandbox-setup` offers, and their fields. */
  readonly kinds: readonly ProviderKind[]
  /** Opens the engine with this chat. The bot starts it and closes it. */
  open(engine: { readonly chat: Chat; readonly appId: string }): Promise<Threads>
  /** Where the bot remembers when it was last alive, to read the messages that it missed. Default: it reads none. */
  readonly alive?: Alive
  /** Another address of Discord’s API, for tests. */
  readonly api?: string
  readonly pace?: Partial<Pace>
  readonly onLog?: Log
}

export interface Alive {
  /** Milliseconds since 1970. */
  read(): Promise<number | undefined>
  write(time: number): Promise<void>
}

export interface Bot extends AsyncDisposable {
  readonly appId: string
  readonly threads: Threads
  /** Connects, registers the commands, catches up with what was missed, and starts the engine. */
  start(): Promise<void>
  close(): Promise<void>
}

/** Writes the time this often. */
const aliveEveryMs = 10_000

/** A bot for one application. It holds no state of its own: another process with the same database continues. */
export async function createBot(options: BotOptions): Promise<Bot> {
  const { token, api, registry, kinds, pace, onLog: log = () => {} } = options
  // One client for all requests: Discord’s limits are those of the bot, and discord.js counts for each client.
  const client = clientOf(api)
  const rest = client.rest.setToken(token)
  const { appId, userId } = await identityOf(rest)
  const messages = new Messages(rest)
  const openings = new Openings(messages)
  let writer: Writer | undefined
  const chat = new DiscordChat(() => writer!, messages, log)
  const threads = await options.open({ chat, appId })
  // The engine must not be called from within a call of the chat.
  const onGone = (threadId: string) =>
    setImmediate(() => {
      threads.deleted(threadId).catch((error) => log({ level: 'error', text: reasonOf(error) }))
    })
  const transport = transportOf(messages, { userId, opened: (threadId) => openings.opened(threadId) })
  writer = new Writer({ posts: threads.posts, transport, pace, onGone })
  const place: ControlPlace = {
    appId,
    userId,
    threads,
    registry,
    kinds,
    messages,
    refusals: new Refusals(),
    startThread: (start) => openings.start(threads, start),
    numberedChoice: (questionId, index) => chat.choice(questionId, index),
  }
  const onError = (error: unknown) => log({ level: 'warning', text: reasonOf(error) })
  const interactions = new Interactions(place, new Autocomplete(place, onError), log)
  const events = new Events({ client, place, interactions, log, alive: options.alive })
  let timer: NodeJS.Timeout | undefined
  const bot: Bot = {
    appId,
    threads,
    async start() {
      if (await registerCommands(rest, appId)) log({ level: 'info', text: 'the commands were registered' })
      await login(client, token)
      await events.catchUp()
      await threads.start()
      timer = setInterval(() => events.noteAlive(), aliveEveryMs)
      log({ level: 'info', text: `ready as ${client.user?.username} in ${client.guilds.cache.size} servers` })
    },
    async close() {
      clearInterval(timer)
      events.stop()
      await threads.close()
      writer.close()
      await events.idle()
      await client.destroy()
    },
    [Symbol.asyncDispose]: () => bot.close(),
  }
  return bot
}

async function login(client: Client, token: string): Promise<void> {
  const ready = new Promise<void>((resolve) => client.once('clientReady', () => resolve()))
  try {
    await client.login(token)
  } catch (error) {
    const reason = error instanceof Error ? error.message : ''
    if (/intents/i.test(reason))
      throw new SandboxError('forbidden', 'Discord does not let the bot read messages.', {
        hint: 'Switch on “Message Content Intent” in the developer portal, under Bot.',
      })
    throw new SandboxError(
      'unauthenticated',
      'Discord did not accept the bot’s token, or could not be reached.',
      {
        hint: 'Run: sandkasten discord setup.',
      },
    )
  }
  await ready
}
