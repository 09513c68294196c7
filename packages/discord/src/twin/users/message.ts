import type { Core } from '../core.ts'
import { flatten, isSelect } from '../state/components.ts'
import { MessageFlag } from '../state/messages.ts'
import type { AttachmentRecord, Component, Embed, MessageRecord } from '../state/world.ts'
import { buttonLabel, renderMessage } from './transcript.ts'
import { type WaitOptions, waitFor } from './wait.ts'

/** A message as users see it. It always shows the latest state. */
export class TwinMessage {
  readonly id: string
  readonly #core: Core
  readonly #record: MessageRecord

  constructor(core: Core, record: MessageRecord) {
    this.#core = core
    this.#record = record
    this.id = record.id
  }

  get content(): string {
    return this.#record.content
  }

  get author(): string {
    return this.#core.world.users.get(this.#record.authorId)!.name
  }

  get channelId(): string {
    return this.#record.channelId
  }

  get embeds(): readonly Embed[] {
    return this.#record.embeds
  }

  get attachments(): readonly AttachmentRecord[] {
    return this.#record.attachments
  }

  get isEphemeral(): boolean {
    return this.#record.visibleTo !== undefined
  }

  /** A deferred reply that the bot has not filled yet. */
  get isThinking(): boolean {
    return Boolean(this.#record.flags & MessageFlag.loading)
  }

  get isEdited(): boolean {
    return this.#record.editedAt !== undefined
  }

  get isDeleted(): boolean {
    return this.#core.world.channels.get(this.#record.channelId)?.messages.get(this.id) !== this.#record
  }

  get nonce(): string | number | undefined {
    return this.#record.nonce
  }

  /** The id of the message that this one replies to. */
  get replyTo(): string | undefined {
    return this.#record.type === 19 ? this.#record.reference?.messageId : undefined
  }

  /** Names of the users whom the message pinged; `@everyone` counts as one. */
  get pings(): string[] {
    const { userIds, roleIds, everyone } = this.#record.mentions
    const guild = this.#core.world.guilds.get(this.#core.world.channels.get(this.channelId)?.guildId ?? '')
    return [
      ...(everyone ? ['@everyone'] : []),
      ...userIds.map((id) => this.#core.world.users.get(id)!.name),
      ...roleIds.map((id) => `@${guild?.roles.get(id)?.name}`),
    ]
  }

  get reactions(): Record<string, string[]> {
    return Object.fromEntries(
      [...this.#record.reactions.values()].map(({ emoji, userIds }) => [
        emoji.name,
        [...userIds].map((id) => this.#core.world.users.get(id)!.name),
      ]),
    )
  }

  /** Labels of the buttons, without disabled ones. */
  get buttons(): string[] {
    return this.components.filter(({ type, disabled }) => type === 2 && !disabled).map(buttonLabel)
  }

  get selects(): Component[] {
    return this.components.filter(({ type, disabled }) => isSelect(type) && !disabled)
  }

  /** All components, with those inside of others. */
  get components(): Component[] {
    return flatten(this.#record.components)
  }

  /** Downloads an attachment from the twin's CDN. */
  async download(filename: string): Promise<Uint8Array> {
    const file = this.attachments.find((attachment) => attachment.filename === filename)
    if (!file) throw new Error(`the message has no file "${filename}":\n${this}`)
    const response = await fetch(file.url)
    if (!response.ok) throw new Error(`${file.url}: status ${response.status}`)
    return await response.bytes()
  }

  /** Waits until the message matches, for example after an edit. */
  async waitUntil(match: MessageMatch, options?: WaitOptions): Promise<this> {
    return await waitFor(
      this.#core,
      `the message to match ${describeMatch(match)}`,
      () => matches(this, match) && this,
      () => String(this),
      { ...options, channelId: this.channelId },
    )
  }

  toString(): string {
    return renderMessage(this.#core, this.#record)
  }
}

/** A part of the rendered message, a pattern for it, or a function. */
export type MessageMatch = string | RegExp | ((message: TwinMessage) => boolean)

export function matches(message: TwinMessage, match: MessageMatch): boolean {
  if (typeof match === 'string') return String(message).includes(match)
  return match instanceof RegExp ? match.test(String(message)) : match(message)
}

export function describeMatch(match: MessageMatch): string {
  return typeof match === 'function'
    ? String(match)
    : match instanceof RegExp
      ? String(match)
      : JSON.stringify(match)
}
