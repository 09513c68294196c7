import type { Member } from '@sandkasten/threads'
import {
  type BaseMessageOptions,
  type ButtonInteraction,
  type ChatInputCommandInteraction,
  GuildMember,
  type Interaction,
  type ModalComponentData,
  type ModalSubmitInteraction,
  PermissionFlagsBits,
  type StringSelectMenuInteraction,
} from 'discord.js'
import type { Call, CommandCall, Form } from '../commands/command.ts'
import type { ControlCall } from '../controls/control.ts'
import { rowOf } from '../rest/messages.ts'
import { shortened } from '../show/escape.ts'
import type { Post } from '../show/post.ts'

/** Interactions of Discord as calls. Undefined: not in a server. */
export function callOf(interaction: Interaction): Call | undefined {
  const { guildId, channelId, channel, user } = interaction
  if (!guildId || !channelId || !interaction.member) return undefined
  const isThread = channel?.isThread() ?? false
  return {
    id: interaction.id,
    by: { id: user.id, name: shortened(nameOf(interaction), 80) },
    member: memberOf(interaction),
    guildId,
    channelId: isThread ? (channel as { parentId: string | null }).parentId! : channelId,
    threadId: isThread ? channelId : undefined,
  }
}

export function commandCallOf(interaction: ChatInputCommandInteraction): CommandCall | undefined {
  const call = callOf(interaction)
  if (!call) return undefined
  const value = (name: string) => interaction.options.get(name)?.value
  return {
    ...call,
    text: (name) => {
      const found = value(name)
      return typeof found === 'string' && found.trim() !== '' ? found.trim() : undefined
    },
    whole: (name) => (typeof value(name) === 'number' ? (value(name) as number) : undefined),
    flag: (name) => (typeof value(name) === 'boolean' ? (value(name) as boolean) : undefined),
    update: async (post) => {
      await interaction.editReply(payloadOf(post))
    },
    replyId: async () => (await interaction.fetchReply()).id,
  }
}

export function controlCallOf(
  interaction: ButtonInteraction | StringSelectMenuInteraction | ModalSubmitInteraction,
  argument: string,
): ControlCall | undefined {
  const call = callOf(interaction)
  if (!call) return undefined
  const fields = interaction.isModalSubmit() ? interaction.fields.fields : undefined
  const texts = new Map(
    [...(fields?.values() ?? [])].map((one) => [one.customId, 'value' in one ? String(one.value) : '']),
  )
  return {
    ...call,
    argument,
    values: interaction.isStringSelectMenu() ? interaction.values : [],
    field: (id) => texts.get(id),
    fields: [...texts.keys()],
  }
}

/** A post for discord.js. */
export function payloadOf(post: Post): BaseMessageOptions & { attachments: [] } {
  const { content, files = [], rows = [] } = post
  return {
    // Discord refuses a reply without text, files and controls.
    content: content === '' && files.length === 0 ? '-# •' : content,
    files: files.map(({ name, bytes }) => ({ attachment: Buffer.from(bytes), name })),
    components: rows.map(rowOf) as never,
    allowedMentions: { parse: [] },
    attachments: [],
  }
}

export function formOf({ id, title, fields }: Form): ModalComponentData {
  return {
    customId: id,
    title,
    components: fields.map((field) => ({
      type: 1,
      components: [
        {
          type: 4,
          customId: field.id,
          label: field.label,
          style: field.isLong ? 2 : 1,
          required: field.isRequired,
          ...(field.placeholder ? { placeholder: field.placeholder } : {}),
          maxLength: 4000,
        },
      ],
    })),
  }
}

function memberOf(interaction: Interaction): Member {
  const { member, user, memberPermissions } = interaction
  return {
    id: user.id,
    roles: member instanceof GuildMember ? [...member.roles.cache.keys()] : (member?.roles ?? []),
    canManageGuild: memberPermissions?.has(PermissionFlagsBits.ManageGuild) ?? false,
  }
}

function nameOf({ member, user }: Interaction): string {
  if (member instanceof GuildMember) return member.displayName
  return member?.nick ?? user.globalName ?? user.username
}
