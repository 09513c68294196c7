import type { SendPlace } from '@sandkasten/discord'
import { openPlace, send } from '@sandkasten/discord'
import type { Twin, TwinChannel } from '@sandkasten/discord/testing'
import type { Random } from '../random.ts'

/** One text that a user wants an answer to. */
export interface Asked {
  readonly text: string
  /** The thread that must have the answer. Undefined: Discord itself said that the bot did not respond. */
  readonly thread: Promise<TwinChannel | undefined>
}

const mostOpen = 4

/** People who use Discord all the time, whether the bot runs or not. Which thing they do next is random. */
export class People {
  readonly asked: Asked[] = []
  /** Commands to which the bot gave a clear error instead of a thread. */
  readonly refused: string[] = []
  /** Commands that Discord reported as failed: no bot acknowledged them. */
  readonly unheard: string[] = []
  readonly #twin: Twin
  readonly #channel: TwinChannel
  readonly #random: Random
  readonly #threads: TwinChannel[] = []
  #place: SendPlace | undefined
  #count = 0

  constructor(twin: Twin, channel: TwinChannel, random: Random) {
    this.#twin = twin
    this.#channel = channel
    this.#random = random
  }

  async act(): Promise<void> {
    const all = this.#threads.slice(-mostOpen)
    const deed = all.length === 0 ? 'command' : this.#random.pick(['command', 'send', 'say', 'say', 'say'])
    this.#count += 1
    const text = `work-${this.#count}.`
    if (deed === 'say') await this.#say(this.#random.pick(all), text)
    else if (deed === 'send') await this.#send(text)
    else this.#command(text)
  }

  async #say(thread: TwinChannel, text: string): Promise<void> {
    const files =
      this.#random.below(3) === 0 ? [{ name: 'note.txt', bytes: Buffer.from(`file of ${text}`) }] : []
    this.asked.push({ text, thread: Promise.resolve(thread) })
    await this.#maria.in(thread).say(text, { files: files as never })
  }

  async #send(text: string): Promise<void> {
    this.#place ??= await openPlace(this.#twin.token, this.#channel.id, { api: this.#twin.api })
    const marker = { id: `send-${this.#random.seed}-${this.#count}`.slice(-25), by: 'ci', create: {} }
    const { messageId } = await send(this.#place, { prompt: text, marker })
    this.asked.push({ text, thread: this.#threadOf(messageId) })
  }

  #command(text: string): void {
    const run = async (): Promise<TwinChannel | undefined> => {
      const used = await this.#maria.runSlashCommand('sandbox', { prompt: text }).catch(() => undefined)
      if (!used) {
        this.unheard.push(text)
        return undefined
      }
      const find = () =>
        this.#channel.threads.find(({ id }) => id === used.reply?.id) ??
        this.#channel.messages.find(
          ({ content, replyTo, id }) =>
            content.startsWith('-# ✕') && (id === used.reply?.id || replyTo === used.reply?.id),
        )
      const found = await this.#twin.waitFor(`a thread or an error for ${text}`, find, { timeoutMs: 600_000 })
      if ('content' in found) {
        this.refused.push(`${text} ${found.content}`)
        return undefined
      }
      this.#threads.push(found)
      return found
    }
    const thread = run()
    thread.catch(() => {})
    this.asked.push({ text, thread })
  }

  async #threadOf(messageId: string): Promise<TwinChannel> {
    const find = () => this.#channel.threads.find(({ id }) => id === messageId)
    const thread = await this.#twin.waitFor(`the thread of ${messageId}`, find, { timeoutMs: 600_000 })
    this.#threads.push(thread)
    return thread
  }

  get #maria() {
    return this.#channel.user('Maria', { permissions: ['ManageGuild', 'SendMessages', 'ViewChannel'] })
  }
}
