import type { Post, Row } from '../show/post.ts'
import { RequestPace } from './request-pace.ts'
import { codeOf, codes, type RawChannel, type RawMessage, type REST, Routes, translated } from './rest.ts'

/** Calls for messages and threads. The body of every message forbids mentions and previews of links. */
export class Messages {
  readonly #rest: REST
  readonly #pace = new RequestPace()

  constructor(rest: REST) {
    this.#rest = rest
  }

  /** With a nonce, a second call within a few minutes returns the first message. */
  async send(channelId: string, post: Post, { nonce, replyTo }: { nonce?: string; replyTo?: string } = {}) {
    const reference = replyTo ? { message_reference: { message_id: replyTo, fail_if_not_exists: false } } : {}
    const body = { ...bodyOf(post), ...reference, ...(nonce ? { nonce, enforce_nonce: true } : {}) }
    return this.#call<RawMessage>('sending a message', () =>
      this.#rest.post(Routes.channelMessages(channelId), { body, files: filesOf(post) }),
    )
  }

  async edit(channelId: string, messageId: string, post: Post) {
    return this.#call<RawMessage>('editing a message', () =>
      this.#rest.patch(Routes.channelMessage(channelId, messageId), {
        body: bodyOf(post),
        files: filesOf(post),
      }),
    )
  }

  /** False: it did not exist. */
  async remove(channelId: string, messageId: string): Promise<boolean> {
    const removed = this.#call('deleting a message', () =>
      this.#rest.delete(Routes.channelMessage(channelId, messageId)),
    )
    return (await this.#orGone(removed.then(() => true))) ?? false
  }

  async get(channelId: string, messageId: string): Promise<RawMessage | undefined> {
    return this.#orGone(
      this.#call('reading a message', () => this.#rest.get(Routes.channelMessage(channelId, messageId))),
    )
  }

  /** Messages after an id, the oldest first. */
  async after(channelId: string, after: string, limit = 100): Promise<RawMessage[]> {
    const query = new URLSearchParams({ after, limit: String(limit) })
    const found = await this.#call<RawMessage[]>('reading messages', () =>
      this.#rest.get(Routes.channelMessages(channelId), { query }),
    )
    return found.toSorted((a, b) => (BigInt(a.id) < BigInt(b.id) ? -1 : 1))
  }

  async latest(channelId: string, limit = 50): Promise<RawMessage[]> {
    const query = new URLSearchParams({ limit: String(limit) })
    return this.#call<RawMessage[]>('reading messages', () =>
      this.#rest.get(Routes.channelMessages(channelId), { query }),
    )
  }

  async channel(channelId: string): Promise<RawChannel | undefined> {
    return this.#orGone(this.#call('reading a channel', () => this.#rest.get(Routes.channel(channelId))))
  }

  async rename(threadId: string, name: string): Promise<void> {
    await this.#call('renaming a thread', () =>
      this.#rest.patch(Routes.channel(threadId), { body: { name } }),
    )
  }

  async setArchived(threadId: string, archived: boolean): Promise<void> {
    await this.#call('archiving a thread', () =>
      this.#rest.patch(Routes.channel(threadId), { body: { archived } }),
    )
  }

  /** The thread of a message; it has the message’s id. An existing one is no error. */
  async openThread(channelId: string, messageId: string, name: string): Promise<void> {
    const body = { name, auto_archive_duration: 4320 }
    try {
      await this.#call('opening a thread', () =>
        this.#rest.post(Routes.threads(channelId, messageId), { body }),
      )
    } catch (error) {
      if (discordCodeOf(error) !== codes.threadExists) throw error
    }
  }

  async join(threadId: string, userId: string): Promise<void> {
    await this.#call('adding a user to a thread', () =>
      this.#rest.put(Routes.threadMembers(threadId, userId)),
    )
  }

  async typing(channelId: string): Promise<void> {
    await this.#call('showing that the bot works', () => this.#rest.post(Routes.channelTyping(channelId)))
  }

  async react(channelId: string, messageId: string, emoji: string): Promise<void> {
    await this.#call('adding a reaction', () =>
      this.#rest.put(Routes.channelMessageOwnReaction(channelId, messageId, encodeURIComponent(emoji))),
    )
  }

  async #call<T>(doing: string, run: () => Promise<unknown>): Promise<T> {
    try {
      await this.#pace.turn()
      return (await run()) as T
    } catch (error) {
      throw Object.assign(translated(error, doing), { discordCode: codeOf(error) })
    }
  }

  async #orGone<T>(call: Promise<T>): Promise<T | undefined> {
    try {
      return await call
    } catch (error) {
      const code = discordCodeOf(error)
      if (code === codes.unknownMessage || code === codes.unknownChannel) return undefined
      throw error
    }
  }
}

/** Discord’s own code of a failure that `Messages` has thrown. */
export function discordCodeOf(error: unknown): number | undefined {
  return (error as { discordCode?: number } | undefined)?.discordCode
}

/** A message without previews of links. */
const suppressEmbeds = 4

/** The JSON of a message: it has no pings, and shows no previews. */
export function bodyOf({ content, files = [], rows = [] }: Post): Record<string, unknown> {
  return {
    content,
    flags: suppressEmbeds,
    allowed_mentions: { parse: [] },
    components: rows.map(rowOf),
    attachments: files.map(({ name }, id) => ({ id, filename: name })),
  }
}

export function filesOf({ files = [] }: Post): Array<{ name: string; data: Buffer }> {
  return files.map(({ name, bytes }) => ({ name, data: Buffer.from(bytes) }))
}

const styles = { primary: 1, secondary: 2, success: 3, danger: 4 } as const

export function rowOf(row: Row): Record<string, unknown> {
  if (!('type' in row))
    return {
      type: 1,
      components: row.map(({ id, label, style }) => ({
        type: 2,
        custom_id: id,
        label,
        style: styles[style],
      })),
    }
  const { id, placeholder, most, options } = row
  return {
    type: 1,
    components: [{ type: 3, custom_id: id, placeholder, min_values: 1, max_values: most, options }],
  }
}
