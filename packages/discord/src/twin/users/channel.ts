import type { Core } from '../core.ts'
import { changeChannel, deleteChannel } from '../state/channels.ts'
import { deleteMessage } from '../state/messages.ts'
import { bits, type PermissionName } from '../state/permissions.ts'
import { changeThread } from '../state/threads.ts'
import type { ChannelRecord, Overwrite } from '../state/world.ts'
import { describeMatch, type MessageMatch, matches, TwinMessage } from './message.ts'
import { openUser, type UserOptions } from './open-user.ts'
import { renderChannel } from './transcript.ts'
import type { TwinUser } from './user.ts'
import { type WaitOptions, waitFor } from './wait.ts'

/** A text channel or a thread. */
export class TwinChannel {
  readonly id: string
  readonly #core: Core
  readonly #record: ChannelRecord

  constructor(core: Core, record: ChannelRecord) {
    this.#core = core
    this.#record = record
    this.id = record.id
  }

  get name(): string {
    return this.#record.name
  }

  get guildId(): string {
    return this.#record.guildId
  }

  get isThread(): boolean {
    return this.#record.thread !== undefined
  }

  get isArchived(): boolean {
    return this.#record.thread?.isArchived ?? false
  }

  get isLocked(): boolean {
    return this.#record.thread?.isLocked ?? false
  }

  get isDeleted(): boolean {
    return this.#core.world.channels.get(this.id) !== this.#record
  }

  /** Names of the users who have joined the thread. */
  get members(): string[] {
    const ids = this.#record.thread?.members.keys() ?? []
    return [...ids].map((id) => this.#core.world.users.get(id)!.name)
  }

  get messages(): TwinMessage[] {
    return [...this.#record.messages.values()].map((message) => new TwinMessage(this.#core, message))
  }

  get threads(): TwinChannel[] {
    return [...this.#core.world.channels.values()]
      .filter(({ thread, parentId }) => thread && parentId === this.id)
      .map((thread) => new TwinChannel(this.#core, thread))
  }

  /** A user in this channel: the one with this id or name, or a new one. */
  user(idOrName: string, options?: UserOptions): TwinUser {
    return openUser(this.#core, this.#record, idOrName, options)
  }

  /** The channel as plain text: see `transcript`. */
  read(): string {
    return this.transcript()
  }

  /** Plain text with names instead of ids, the final state of edited messages, and ephemeral messages marked. */
  transcript(): string {
    return renderChannel(this.#core, this.#record)
  }

  /** Waits for a message that matches; `after` skips it and what came before. */
  async waitForMessage(
    match: MessageMatch,
    { after, ...options }: WaitOptions & { after?: TwinMessage } = {},
  ): Promise<TwinMessage> {
    const find = () => {
      const { messages } = this
      const start = after ? messages.findIndex(({ id }) => id === after.id) + 1 : 0
      return messages.slice(start).find((message) => matches(message, match))
    }
    return await waitFor(
      this.#core,
      `a message in "${this.name}" that matches ${describeMatch(match)}`,
      find,
      () => this.transcript(),
      { ...options, channelId: this.id },
    )
  }

  /** Waits until the transcript contains a text or matches a pattern. */
  async waitForTranscript(match: string | RegExp, options?: WaitOptions): Promise<string> {
    const find = () => {
      const text = this.transcript()
      return (typeof match === 'string' ? text.includes(match) : match.test(text)) && text
    }
    const what = `the transcript of "${this.name}" to match ${describeMatch(match)}`
    return await waitFor(this.#core, what, find, () => this.transcript(), { ...options, channelId: this.id })
  }

  /** Waits for a thread of this channel: any, or the one with this name. */
  async waitForThread(name?: string | RegExp, options?: WaitOptions): Promise<TwinChannel> {
    const fits = (thread: TwinChannel) =>
      name === undefined || (typeof name === 'string' ? thread.name === name : name.test(thread.name))
    return await waitFor(
      this.#core,
      `a thread${name ? ` named ${name}` : ''} in "${this.name}"`,
      () => this.threads.find(fits),
      () =>
        `threads: ${this.threads.map((thread) => thread.name).join(', ') || 'none'}\n${this.transcript()}`,
      { ...options, channelId: this.id },
    )
  }

  /** Waits for a state of the channel, such as `({ isArchived }) => isArchived`. */
  async waitUntil(condition: (channel: this) => boolean, options?: WaitOptions): Promise<this> {
    const find = () => condition(this) && this
    return await waitFor(this.#core, String(condition), find, () => this.transcript(), {
      ...options,
      channelId: this.id,
    })
  }

  /** Archives or reopens the thread as an administrator does. */
  archive(isArchived = true): void {
    changeThread(this.#core, this.#record, { isArchived })
  }

  lock(isLocked = true): void {
    changeThread(this.#core, this.#record, { isLocked, isArchived: isLocked || undefined })
  }

  rename(name: string): void {
    if (this.#record.thread) changeThread(this.#core, this.#record, { name })
    else changeChannel(this.#core, this.#record, { name })
  }

  delete(): void {
    deleteChannel(this.#core, this.#record)
  }

  /** Deletes a message as a moderator does. */
  deleteMessage(message: TwinMessage): void {
    const record = this.#record.messages.get(message.id)
    if (!record) throw new Error(`the message is not in "${this.name}":\n${message}`)
    deleteMessage(this.#core, record)
  }

  /** Takes permissions away from a user, a bot or (without a target) everyone, in this channel. */
  deny(permissions: readonly PermissionName[], target?: { readonly id: string }): void {
    this.#overwrite(target, (entry) => ({
      ...entry,
      allow: entry.allow & ~bits(permissions),
      deny: entry.deny | bits(permissions),
    }))
  }

  allow(permissions: readonly PermissionName[], target?: { readonly id: string }): void {
    this.#overwrite(target, (entry) => ({
      ...entry,
      allow: entry.allow | bits(permissions),
      deny: entry.deny & ~bits(permissions),
    }))
  }

  #overwrite(target: { readonly id: string } | undefined, change: (entry: Overwrite) => Overwrite): void {
    const id = target?.id ?? this.#record.guildId
    const isMember = this.#core.world.users.has(id)
    const existing = this.#record.overwrites.find((entry) => entry.id === id)
    const entry = change(existing ?? { id, type: isMember ? 1 : 0, allow: 0n, deny: 0n })
    const others = this.#record.overwrites.filter((other) => other.id !== id)
    changeChannel(this.#core, this.#record, { overwrites: [...others, entry] })
  }
}
