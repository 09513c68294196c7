import { setTimeout as sleep } from 'node:timers/promises'
import type { Thread } from '@sandkasten/threads'
import type { Client, Guild } from 'discord.js'
import type { Place } from '../commands/command.ts'
import { said } from '../commands/reply.ts'
import { handleMessage } from '../messages/handle.ts'
import type { Incoming } from '../messages/incoming.ts'
import { isOutage } from '../rest/rest.ts'
import { type CatchUpOptions, catchUpMessages, catchUpThreads } from './catch-up.ts'
import type { Alive } from './create-bot.ts'
import { incomingOf } from './incoming.ts'
import type { Interactions } from './interactions.ts'
import { Lanes } from './lanes.ts'
import { type Log, reasonOf } from './log.ts'
import { Recent } from './recent.ts'

export interface EventsOptions {
  readonly client: Client
  readonly place: Place
  readonly interactions: Interactions
  readonly alive?: Alive
  readonly log: Log
}

/** Events of the gateway, in their order for each channel. */
export class Events {
  readonly #options: EventsOptions
  readonly #lanes = new Lanes()
  readonly #recent = new Recent()
  #isStopped = false
  #isCaughtUp = false
  /** What happens now is not missed. */
  #isConnected = false
  /** Messages that come during a catch-up wait for it, so that they do not overtake missed ones. */
  #catchingUp: Promise<void> | undefined
  readonly #firstCatchUp = Promise.withResolvers<void>()

  constructor(options: EventsOptions) {
    this.#options = options
    const { client, interactions, log, place } = options
    const { threads } = place
    client.on('interactionCreate', (interaction) => {
      if (!this.#isStopped) void interactions.handle(interaction)
    })
    client.on('messageCreate', (message) => {
      if (!this.#isStopped && message.inGuild()) void this.#arrived(incomingOf(message))
    })
    client.on('threadUpdate', (before, after) => {
      if (before.archived === after.archived) return
      this.#lane(after.id, () => (after.archived ? threads.archived(after.id) : threads.unarchived(after.id)))
    })
    client.on('threadDelete', (thread) => this.#lane(thread.id, () => threads.deleted(thread.id)))
    client.on('channelDelete', (channel) => this.#lane(channel.id, () => threads.channelDeleted(channel.id)))
    client.on('guildDelete', (guild) => this.#lane(guild.id, () => this.#left(guild)))
    client.on('guildCreate', (guild) => this.#lane(guild.id, () => this.#joined(guild)))
    // A session that could not be resumed: events were lost.
    client.on('shardReady', () => {
      if (this.#isCaughtUp)
        void this.catchUp().catch((error) => log({ level: 'warning', text: reasonOf(error) }))
    })
    client.on('error', (error) => log({ level: 'warning', text: reasonOf(error) }))
    client.on('shardDisconnect', () => {
      this.#isConnected = false
      log({ level: 'warning', text: 'disconnected from Discord' })
    })
    client.on('shardResume', () => {
      this.#isConnected = true
    })
    client.on('shardReconnecting', () => {
      this.#isConnected = false
      if (!this.#isStopped) log({ level: 'info', text: 'connecting to Discord again' })
    })
  }

  /** Handles what has happened while the bot was away. Ids are handled once. */
  catchUp(): Promise<void> {
    const run = (this.#catchingUp ?? Promise.resolve())
      .then(() => this.#catchUp())
      .finally(() => {
        if (this.#catchingUp === ended) this.#catchingUp = undefined
        this.#firstCatchUp.resolve()
      })
    const ended = run.catch(() => {})
    this.#catchingUp = ended
    return run.then(() => this.noteAlive())
  }

  async #catchUp(): Promise<void> {
    const { client, alive, place } = this.#options
    const since = await alive?.read()
    const here = new Set(client.guilds.cache.keys())
    for (const thread of await place.threads.list())
      if (thread.guildId !== undefined && !here.has(thread.guildId) && isOpen(thread))
        await place.threads.archived(thread.threadId)
    for (const guild of client.guilds.cache.values()) await this.#catchUpSurely(guild, since)
    this.#isCaughtUp = true
    this.#isConnected = true
  }

  /** While Discord fails, again and again: a message that is not read now is never read. */
  async #catchUpSurely(guild: Guild, since: number | undefined): Promise<void> {
    for (let waitMs = 500; !this.#isStopped; waitMs = Math.min(waitMs * 2, mostRetryMs)) {
      try {
        return await this.#catchUpGuild(guild, since)
      } catch (error) {
        this.#options.log({ level: 'warning', text: `server ${guild.id}: ${reasonOf(error)}` })
        if (!isOutage(error)) return
      }
      await sleep(waitMs, undefined, { ref: false })
    }
  }

  noteAlive(): void {
    const { alive, log } = this.#options
    // Without a connection, and before a catch-up has ended, messages are missed.
    if (!this.#isConnected || this.#isStopped || this.#catchingUp) return
    alive?.write(Date.now()).catch((error) => log({ level: 'warning', text: reasonOf(error) }))
  }

  stop(): void {
    this.#isStopped = true
  }

  idle(): Promise<void> {
    return this.#lanes.idle()
  }

  async #catchUpGuild(guild: Guild, since: number | undefined): Promise<void> {
    const options: CatchUpOptions = {
      client: this.#options.client as Client<true>,
      place: this.#options.place,
      log: this.#options.log,
      since,
      handle: (message) => this.#missed(message),
      reopen: (thread) => this.#reopen(thread),
    }
    await catchUpThreads(guild, options)
    await catchUpMessages(guild, options)
  }

  async #arrived(message: Incoming): Promise<void> {
    await this.#firstCatchUp.promise
    while (this.#catchingUp) await this.#catchingUp
    await this.#message(message)
  }

  async #message(message: Incoming): Promise<void> {
    if (!this.#recent.add(message.id)) return
    await this.#lane(message.channelId, async () => {
      try {
        await handleMessage(message, this.#options.place)
      } catch (error) {
        // The next time that messages are read again, this one is handled.
        this.#recent.remove(message.id)
        throw error
      }
    })
  }

  async #missed(message: Incoming): Promise<void> {
    const { interactions, place } = this.#options
    const { id, channelId, pendingInteraction } = message
    if (pendingInteraction === undefined || message.author.id !== place.userId) return this.#message(message)
    if (interactions.isKnown(pendingInteraction) || (await place.threads.get(id))) return
    // The process that has acknowledged the command ended before it did anything.
    await place.messages.send(channelId, lost, { nonce: id, replyTo: id })
  }

  /** The bot ended between the engine’s row and Discord’s thread. False: the message is gone, too. */
  async #reopen({ threadId, channelId, title }: Thread): Promise<boolean> {
    const { messages } = this.#options.place
    if (!(await messages.get(channelId, threadId))) return false
    await messages.openThread(channelId, threadId, title.slice(0, 100))
    return true
  }

  async #left(guild: Guild): Promise<void> {
    // An outage of Discord, not a farewell.
    if (!guild.available) return
    const { threads } = this.#options.place
    for (const thread of await threads.list())
      if (thread.guildId === guild.id && isOpen(thread)) await threads.archived(thread.threadId)
  }

  async #joined(guild: Guild): Promise<void> {
    if (this.#isCaughtUp) await this.#catchUpGuild(guild, undefined)
  }

  async #lane(key: string, work: () => Promise<void>): Promise<void> {
    try {
      await this.#lanes.run(key, work)
    } catch (error) {
      this.#options.log({ level: 'error', text: reasonOf(error) })
    }
  }
}

const mostRetryMs = 30_000

const lost = said('-# ✕ The bot was restarted before it could do this.\n-# Use the command again.')

function isOpen({ state }: Thread): boolean {
  return state !== 'archived' && state !== 'ended'
}
