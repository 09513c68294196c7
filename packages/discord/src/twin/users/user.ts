import type { Core } from '../core.ts'
import { isSelect } from '../state/components.ts'
import type { Upload } from '../state/files.ts'
import { createInteraction, InteractionType } from '../state/interactions.ts'
import { messagePayload } from '../state/message-payload.ts'
import { createMessage, deleteMessage, editMessage } from '../state/messages.ts'
import { may, type PermissionName, sendPermission } from '../state/permissions.ts'
import { addReaction, parseEmoji, removeReaction } from '../state/reactions.ts'
import { addThreadMember, changeThread, createThread, ThreadType } from '../state/threads.ts'
import { publishTyping } from '../state/typing.ts'
import type { ChannelRecord, Component, MessageRecord } from '../state/world.ts'
import { TwinChannel } from './channel.ts'
import { findCommand, requireCommandAccess } from './commands.ts'
import { TwinInteraction, waitForAcknowledgement } from './interaction.ts'
import { TwinMessage } from './message.ts'
import { fillModal, type ModalValues } from './modal.ts'
import { encodeCommand, findOption, type OptionValue } from './options.ts'
import { resolveSelect } from './resolved.ts'
import { buttonLabel } from './transcript.ts'

export interface SayOptions {
  readonly files?: readonly Upload[]
  readonly replyTo?: TwinMessage
  /** Users with Nitro can send 4,000 characters. */
  readonly hasNitro?: boolean
}

/** A user who looks at one channel. Like Discord's client it refuses what the user may not do. */
export class TwinUser {
  readonly id: string
  readonly name: string
  readonly #core: Core
  readonly #channel: ChannelRecord

  constructor(core: Core, channel: ChannelRecord, id: string, name: string) {
    this.#core = core
    this.#channel = channel
    this.id = id
    this.name = name
  }

  get channel(): TwinChannel {
    return new TwinChannel(this.#core, this.#channel)
  }

  /** The same user in another channel or thread. */
  in(channel: TwinChannel): TwinUser {
    return new TwinUser(this.#core, this.#core.world.channels.get(channel.id)!, this.id, this.name)
  }

  /** Sends a message. */
  async say(content: string, { files, replyTo, hasNitro = false }: SayOptions = {}): Promise<TwinMessage> {
    this.#require(sendPermission(this.#channel))
    if (files?.length) this.#require('AttachFiles')
    if (this.#channel.thread?.isLocked) this.#require('ManageThreads')
    const most = hasNitro ? 4000 : 2000
    if (content.length > most) throw new Error(`the user can send ${most} characters`)
    const record = createMessage(this.#core, this.#channel, {
      authorId: this.id,
      content,
      files,
      ...(replyTo && { type: 19, reference: { channelId: this.#channel.id, messageId: replyTo.id } }),
    })
    if (this.#channel.thread) addThreadMember(this.#core, this.#channel, this.id)
    return new TwinMessage(this.#core, record)
  }

  edit(message: TwinMessage, content: string): void {
    editMessage(this.#core, this.#own(message), { content })
  }

  deleteMessage(message: TwinMessage): void {
    deleteMessage(this.#core, this.#own(message))
  }

  react(message: TwinMessage, emoji: string): void {
    this.#require('AddReactions')
    addReaction(this.#core, this.#message(message), this.id, parseEmoji(emoji))
  }

  unreact(message: TwinMessage, emoji: string): void {
    removeReaction(this.#core, this.#message(message), this.id, parseEmoji(emoji))
  }

  type(): void {
    publishTyping(this.#core, this.#channel, this.id)
  }

  /** Starts a thread, from a message or without one. */
  startThread(name: string, from?: TwinMessage): TwinChannel {
    this.#require('CreatePublicThreads')
    const starter = from && this.#message(from)
    return new TwinChannel(
      this.#core,
      createThread(this.#core, this.#channel, this.id, { name, type: ThreadType.public, starter }),
    )
  }

  /** Archives a thread. Its owner and moderators may do so. */
  archive(thread: TwinChannel, isArchived = true): void {
    const record = this.#core.world.channels.get(thread.id)
    if (!record?.thread) throw new Error(`"${thread.name}" is not a thread`)
    const mayAlways =
      record.thread.ownerId === this.id || may(this.#core.world, record, this.id, 'ManageThreads')
    if (!mayAlways && (isArchived || record.thread.isLocked)) {
      throw new Error(`${this.name} may not archive "${thread.name}": it needs ManageThreads`)
    }
    changeThread(this.#core, record, { isArchived })
  }

  unarchive(thread: TwinChannel): void {
    this.archive(thread, false)
  }

  /**
   * Runs a slash command, such as `sandbox` or `sandbox list`, and waits for its acknowledgement.
   * `bot` chooses between bots with the same command.
   */
  async runSlashCommand(
    command: string,
    options: Readonly<Record<string, OptionValue>> = {},
    { bot }: { bot?: { readonly id: string } } = {},
  ): Promise<TwinInteraction> {
    const found = findCommand(this.#core, this.#channel, command, bot?.id)
    this.#require('UseApplicationCommands')
    requireCommandAccess(this.#core, this.#channel, this, found.command)
    const data = encodeCommand(this.#core, this.#channel, found.command, found.path, options)
    return await this.#interact(
      { type: InteractionType.command, bot: found.bot, data, commandName: command },
      `/${command} of ${this.name}`,
    )
  }

  /** Types into an option with autocomplete, and returns the choices that the bot offers. */
  async autocomplete(
    command: string,
    option: string,
    value: string,
    others: Readonly<Record<string, OptionValue>> = {},
  ): Promise<TwinInteraction['choices']> {
    const { bot, path, ...found } = findCommand(this.#core, this.#channel, command)
    if (!findOption(found.command, path, option)?.autocomplete) {
      throw new Error(`/${command}: option "${option}" has no autocomplete`)
    }
    const data = encodeCommand(
      this.#core,
      this.#channel,
      found.command,
      path,
      { ...others, [option]: value },
      option,
    )
    const interaction = await this.#interact(
      { type: InteractionType.autocomplete, bot, data, commandName: command },
      `autocomplete of "${option}" for "${value}" of ${this.name}`,
    )
    return interaction.choices
  }

  /** Clicks a button, by label or custom id, and waits for its acknowledgement. */
  async clickButton(message: TwinMessage, labelOrId: string): Promise<TwinInteraction> {
    const fits = (button: Component) => buttonLabel(button) === labelOrId || button.custom_id === labelOrId
    const button = this.#component(message, `button "${labelOrId}"`, (part) => part.type === 2 && fits(part))
    return await this.#useComponent(message, button, {}, `the button "${labelOrId}"`)
  }

  /** Chooses values of a select, by label or value. `select` names one of several by placeholder or custom id. */
  async select(
    message: TwinMessage,
    values: string | readonly string[],
    select?: string,
  ): Promise<TwinInteraction> {
    const fits = ({ custom_id, placeholder }: Component) =>
      select === undefined || custom_id === select || placeholder === select
    const component = this.#component(
      message,
      `select ${select ?? ''}`,
      (part) => isSelect(part.type) && fits(part),
    )
    const chosen = [values].flat().map((name) => {
      if (!component.options) return name
      const option = component.options.find(({ label, value }) => label === name || value === name)
      if (!option) throw new Error(`the select has no option "${name}":\n${message}`)
      return option.value
    })
    const { min_values: min = 1, max_values: max = 1 } = component
    if (chosen.length < min || chosen.length > max)
      throw new Error(`the select takes ${min} to ${max} values`)
    const resolved = resolveSelect(this.#core, this.#channel, component, chosen)
    return await this.#useComponent(
      message,
      component,
      { values: chosen, ...(resolved && { resolved }) },
      `the select in ${message.id}`,
    )
  }

  /** The modal that the user sees. */
  get modal() {
    return this.#core.world.openModals.get(this.id)?.modal
  }

  /** Fills in and submits the modal that the bot opened last. Fields are named by custom id or label. */
  async submitModal(values: ModalValues): Promise<TwinInteraction> {
    const opener = this.#core.world.openModals.get(this.id)
    const modal = opener?.modal
    if (!opener || !modal) throw new Error(`${this.name} sees no modal`)
    const data = { custom_id: modal.custom_id, ...fillModal(this.#core, this.#channel, modal, values) }
    this.#core.world.openModals.delete(this.id)
    const bot = this.#core.world.bots.get(opener.botId)!
    const source = opener.sourceMessageId && this.#channel.messages.get(opener.sourceMessageId)
    return await this.#interact(
      {
        type: InteractionType.modal,
        bot,
        data,
        ...(source && { sourceMessageId: source.id, message: messagePayload(this.#core, source, bot.id) }),
      },
      `the modal "${modal.title}" of ${this.name}`,
    )
  }

  async #useComponent(
    message: TwinMessage,
    component: Component,
    values: object,
    what: string,
  ): Promise<TwinInteraction> {
    const record = this.#message(message)
    const data = {
      custom_id: component.custom_id,
      component_type: component.type,
      id: component.id,
      ...values,
    }
    const bot = this.#core.world.bots.get(record.authorId)
    if (!bot) throw new Error(`the message is not from a bot:\n${message}`)
    const payload = messagePayload(this.#core, record, bot.id)
    return await this.#interact(
      { type: InteractionType.component, bot, data, sourceMessageId: record.id, message: payload },
      `${what} of ${this.name}`,
    )
  }

  async #interact(
    input: Omit<Parameters<typeof createInteraction>[1], 'userId' | 'channel'>,
    what: string,
  ): Promise<TwinInteraction> {
    const record = createInteraction(this.#core, { ...input, userId: this.id, channel: this.#channel })
    await waitForAcknowledgement(this.#core, record, what)
    if (record.modal) this.#core.world.openModals.set(this.id, record)
    return new TwinInteraction(this.#core, record, what)
  }

  #component(message: TwinMessage, what: string, fits: (component: Component) => boolean): Component {
    this.#message(message)
    const component = message.components.find(fits)
    if (!component) throw new Error(`the message has no ${what}:\n${message}`)
    if (component.disabled) throw new Error(`the ${what} is disabled:\n${message}`)
    if (component.url) throw new Error(`the ${what} is a link:\n${message}`)
    return component
  }

  #message(message: TwinMessage): MessageRecord {
    const record = this.#channel.messages.get(message.id)
    if (!record)
      throw new Error(`the message is not in "${this.#channel.name}", or it was deleted:\n${message}`)
    if (record.visibleTo !== undefined && record.visibleTo !== this.id) {
      throw new Error(`${this.name} does not see this message:\n${message}`)
    }
    return record
  }

  #own(message: TwinMessage): MessageRecord {
    const record = this.#message(message)
    if (record.authorId !== this.id) throw new Error(`the message is not from ${this.name}:\n${message}`)
    return record
  }

  #require(permission: PermissionName): void {
    const { world } = this.#core
    if (world.channels.get(this.#channel.id) !== this.#channel)
      throw new Error(`"${this.#channel.name}" was deleted`)
    if (!may(world, this.#channel, this.id, permission)) {
      throw new Error(`${this.name} may not do this in "${this.#channel.name}": it needs ${permission}`)
    }
  }
}
