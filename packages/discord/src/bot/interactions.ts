import { SandboxError } from '@sandkasten/sdk'
import { type Action, allowed } from '@sandkasten/threads'
import {
  type AutocompleteInteraction,
  type ButtonInteraction,
  type ChatInputCommandInteraction,
  type Interaction,
  MessageFlags,
  type ModalSubmitInteraction,
  type StringSelectMenuInteraction,
} from 'discord.js'
import type { Autocomplete } from '../autocomplete/autocomplete.ts'
import type { Call, CommandCall, FormCommand } from '../commands/command.ts'
import { commands } from '../commands/index.ts'
import { failure, said } from '../commands/reply.ts'
import type { Control, ControlCall, ControlPlace } from '../controls/control.ts'
import { controlOf } from '../controls/index.ts'
import { codeOf, codes } from '../rest/rest.ts'
import type { Post } from '../show/post.ts'
import { Acknowledgements } from './acknowledgements.ts'
import { callOf, commandCallOf, controlCallOf, formOf, payloadOf } from './calls.ts'
import { type Log, reasonOf } from './log.ts'
import { Recent } from './recent.ts'

/** Discord drops an interaction that is not acknowledged within 3 seconds. */
const rightsDeadlineMs = 2000

type Used = ButtonInteraction | StringSelectMenuInteraction | ModalSubmitInteraction
type Replying = ChatInputCommandInteraction | Used

/** Acknowledges each interaction, checks rights, runs it, and replies with its result or its failure. */
export class Interactions {
  readonly #place: ControlPlace
  readonly #autocomplete: Autocomplete
  readonly #log: Log
  readonly #recent = new Recent()
  readonly #acknowledgements = new Acknowledgements()

  constructor(place: ControlPlace, autocomplete: Autocomplete, log: Log) {
    this.#place = place
    this.#autocomplete = autocomplete
    this.#log = log
  }

  /** Whether this process has received the interaction. */
  isKnown(id: string): boolean {
    return this.#recent.has(id)
  }

  async handle(interaction: Interaction): Promise<void> {
    if (!this.#recent.add(interaction.id)) return
    try {
      if (interaction.isAutocomplete()) await this.#suggest(interaction)
      else if (interaction.isChatInputCommand()) await this.#command(interaction)
      else if (interaction.isButton() || interaction.isStringSelectMenu() || interaction.isModalSubmit())
        await this.#control(interaction)
    } catch (error) {
      // Too late, or another process of this bot was faster: Discord has told the user already.
      const code = codeOf(error)
      const level =
        code === codes.unknownInteraction || code === codes.alreadyAcknowledged ? 'warning' : 'error'
      this.#log({ level, text: `interaction ${interaction.id}: ${reasonOf(error)}` })
    }
  }

  async #suggest(interaction: AutocompleteInteraction): Promise<void> {
    const call = callOf(interaction)
    if (!call) return
    const { name, value } = interaction.options.getFocused(true)
    const isAllowed = await this.#isAllowed(call, 'use')
    await interaction.respond(isAllowed ? await this.#autocomplete.suggest(call, name, String(value)) : [])
  }

  async #command(interaction: ChatInputCommandInteraction): Promise<void> {
    const command = commands.find(({ definition }) => definition.name === interaction.commandName)
    const call = commandCallOf(interaction)
    if (!command || !call) return this.#refuse(interaction, said('-# ✕ This works in servers only.'))
    const right = typeof command.right === 'function' ? command.right(call) : command.right
    const audit = { call, action: command.definition.name, target: command.target?.(call) }
    if (command.reply === 'form') return this.#form(interaction, call, command, right, audit)
    if (!(await this.#isAllowed(call, right))) {
      await this.#refuse(interaction, denied(right))
      return this.#audit(audit, 'forbidden')
    }
    const visible = command.reply === 'private' ? { flags: MessageFlags.Ephemeral as const } : {}
    let replyId: string | undefined
    await this.#acknowledgements.first(async () => {
      const { resource } = await interaction.deferReply({ ...visible, withResponse: true })
      replyId = resource?.message?.id
    })
    const known = { ...call, replyId: async () => replyId ?? (await interaction.fetchReply()).id }
    await interaction.editReply(payloadOf(await this.#result(() => command.run(known, this.#place), audit)))
  }

  async #form(
    interaction: ChatInputCommandInteraction,
    call: CommandCall,
    command: FormCommand,
    right: Action,
    audit: Audited,
  ): Promise<void> {
    if (!(await this.#isAllowed(call, right))) {
      await this.#refuse(interaction, denied(right))
      return this.#audit(audit, 'forbidden')
    }
    try {
      await interaction.showModal(formOf(await command.form(call, this.#place)))
    } catch (error) {
      if (!SandboxError.is(error)) throw error
      await this.#refuse(interaction, failure(error))
    }
  }

  async #control(interaction: Used): Promise<void> {
    const found = controlOf(interaction.customId)
    const call = found && controlCallOf(interaction, found.argument)
    if (!found || !call)
      return this.#refuse(interaction, said('-# ✕ This control is of an earlier version of the bot.'))
    const { control } = found
    const audit = { call, action: `control ${control.name}`, target: control.target?.(call) }
    if (!(await this.#isAllowed(call, control.right))) {
      await this.#refuse(interaction, denied(control.right))
      return this.#audit(audit, 'forbidden')
    }
    if (control.reply === 'form') {
      if (!interaction.isModalSubmit()) await interaction.showModal(formOf(control.form(call)))
    } else if (control.reply === 'private') {
      await this.#acknowledgements.first(() => interaction.deferReply({ flags: MessageFlags.Ephemeral }))
      await interaction.editReply(payloadOf(await this.#result(() => control.run(call, this.#place), audit)))
    } else await this.#update(interaction, control, call, audit)
  }

  async #update(
    interaction: Used,
    control: Extract<Control, { reply: 'update' }>,
    call: ControlCall,
    audit: Audited,
  ): Promise<void> {
    await this.#acknowledgements.first(() => interaction.deferUpdate())
    let done: Awaited<ReturnType<typeof control.run>>
    try {
      if (control.progress) await interaction.editReply(payloadOf(control.progress(call)))
      done = await control.run(call, this.#place)
      await this.#audit(audit, 'ok')
    } catch (error) {
      await this.#failed(audit, error)
      return this.#refuse(interaction, failure(error))
    }
    try {
      if (done?.post) await interaction.editReply(payloadOf(done.post))
    } catch (error) {
      if (codeOf(error) !== codes.archivedThread) throw error
    }
    if (done?.word) await this.#refuse(interaction, done.word)
  }

  /** The result of the work, or its failure in plain words. */
  async #result(work: () => Promise<Post>, audit: Audited): Promise<Post> {
    try {
      const post = await work()
      await this.#audit(audit, 'ok')
      return post
    } catch (error) {
      await this.#failed(audit, error)
      return failure(error)
    }
  }

  async #failed(audit: Audited, error: unknown): Promise<void> {
    const level = SandboxError.is(error) ? 'warning' : 'error'
    this.#log({ level, text: `${audit.action} by ${audit.call.by.id}: ${reasonOf(error)}` })
    await this.#audit(audit, SandboxError.is(error) ? error.code : 'error')
  }

  /** Only the user sees it. */
  async #refuse(interaction: Replying, post: Post): Promise<void> {
    const body = { ...payloadOf(post), flags: MessageFlags.Ephemeral } as const
    if (interaction.deferred || interaction.replied) await interaction.followUp(body)
    else await interaction.reply(body)
  }

  async #isAllowed(call: Call, right: Action): Promise<boolean> {
    // Without the store, members who manage the server can still act.
    const late = new Promise<never>((_, reject) => {
      setTimeout(
        () => reject(new SandboxError('timeout', 'The bot’s database did not answer in time.')),
        rightsDeadlineMs,
      ).unref()
    })
    const { guildId, channelId, member } = call
    const settings = await Promise.race([this.#place.threads.settings({ guildId, channelId }), late])
    return allowed(settings, member, right)
  }

  async #audit({ call, action, target }: Audited, result: string): Promise<void> {
    const { by, guildId, channelId, threadId } = call
    try {
      await this.#place.threads.audit({ by, action, guildId, channelId, threadId, target, result })
    } catch (error) {
      this.#log({ level: 'error', text: `audit of ${action}: ${reasonOf(error)}` })
    }
  }
}

interface Audited {
  readonly call: Call
  readonly action: string
  readonly target?: string
}

const deeds: Record<Action, string> = {
  use: 'use sandboxes',
  create: 'create sandboxes',
  destroy: 'destroy sandboxes',
  setup: 'set up sandboxes',
}

function denied(right: Action): Post {
  return said(
    `-# ✕ You may not ${deeds[right]} here.\n-# Ask a member who manages this server to allow it with /sandbox-allow.`,
  )
}
