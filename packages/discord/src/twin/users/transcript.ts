import type { Core } from '../core.ts'
import { MessageFlag } from '../state/messages.ts'
import type { ChannelRecord, Component, Embed, MessageRecord } from '../state/world.ts'

/**
 * Renders a channel as plain text that does not change between runs: names instead of ids, and no times.
 *
 *     Ada: hello
 *     helper (only Ada sees this): Which one?
 *       [Yes] [No (disabled)]
 *       file: notes.txt (12 bytes)
 */
export function renderChannel(core: Core, channel: ChannelRecord): string {
  const thread = channel.thread
  const state = thread ? [thread.isArchived && 'archived', thread.isLocked && 'locked'].filter(Boolean) : []
  const head = `# ${channel.name}${state.length ? ` (${state.join(', ')})` : ''}`
  const messages = [...channel.messages.values()].map((message) => renderMessage(core, message))
  return [head, ...messages].join('\n')
}

export function renderMessage(core: Core, message: MessageRecord): string {
  const { world } = core
  const author = world.users.get(message.authorId)!.name
  const audience = message.visibleTo ? ` (only ${world.users.get(message.visibleTo)!.name} sees this)` : ''
  const lines = [...textOf(core, message)]
  for (const embed of message.embeds) lines.push(...renderEmbed(embed).map((line) => readable(core, line)))
  for (const component of message.components) lines.push(...renderComponent(component))
  for (const { filename, size } of message.attachments) lines.push(`file: ${filename} (${size} bytes)`)
  const reactions = [...message.reactions.values()].map(
    ({ emoji, userIds }) => `${emoji.name} ${userIds.size}`,
  )
  if (reactions.length) lines.push(`reactions: ${reactions.join('  ')}`)
  const thread = message.threadId ? world.channels.get(message.threadId) : undefined
  if (thread) lines.push(`thread: ${thread.name}`)
  const [first = '', ...rest] = lines
  return [`${author}${audience}: ${first}`.trimEnd(), ...rest.map((line) => `  ${line}`.trimEnd())].join('\n')
}

function textOf(core: Core, message: MessageRecord): string[] {
  if (message.type === 18) return [`started the thread "${message.content}"`]
  if (message.type === 21) {
    const { reference } = message
    const original =
      reference?.messageId && core.world.channels.get(reference.channelId)?.messages.get(reference.messageId)
    return original ? textOf(core, original) : ['(deleted message)']
  }
  if (message.flags & MessageFlag.loading) return ['(is thinking)']
  return message.content === '' ? [''] : readable(core, message.content).split('\n')
}

function renderEmbed({ title, description, author, fields = [], footer }: Embed): string[] {
  return [
    ...(author ? [`| ${author.name}`] : []),
    ...(title ? [`| ${title}`] : []),
    ...(description ?? '')
      .split('\n')
      .filter(Boolean)
      .map((line) => `| ${line}`),
    ...fields.map(({ name, value }) => `| ${name}: ${value.replaceAll('\n', ' ')}`),
    ...(footer ? [`| — ${footer.text}`] : []),
  ]
}

function renderComponent(component: Component): string[] {
  const { type, components = [] } = component
  if (type === 1 && components.every((child) => child.type === 2))
    return [components.map(renderButton).join(' ')]
  if (type === 2) return [renderButton(component)]
  if (type === 10) return (component.content ?? '').split('\n')
  if (component.placeholder !== undefined || component.options) return [renderSelect(component)]
  if (type >= 5 && type <= 8) return [renderSelect(component)]
  return [
    ...components.flatMap(renderComponent),
    ...(component.accessory ? renderComponent(component.accessory) : []),
  ]
}

export function buttonLabel({ label, emoji }: Component): string {
  return [emoji?.name, label].filter(Boolean).join(' ')
}

function renderButton(button: Component): string {
  const link = button.url ? ` ${withoutPort(button.url)}` : ''
  return `[${buttonLabel(button)}${link}${button.disabled ? ' (disabled)' : ''}]`
}

function renderSelect({ placeholder, options = [], disabled }: Component): string {
  const names = options.map(({ label, default: isChosen }) => (isChosen ? `*${label}` : label))
  const choices = names.length > 0 ? `: ${names.join(' | ')}` : ''
  return `{${placeholder ?? 'select'}${choices}${disabled ? ' (disabled)' : ''}}`
}

/** Replaces ids by names, and times by a word. */
function readable(core: Core, text: string): string {
  const { world } = core
  return text
    .replaceAll(/<@!?(\d+)>/g, (all, id: string) => name(world.users.get(id)?.name, '@', all))
    .replaceAll(/<#(\d+)>/g, (all, id: string) => name(world.channels.get(id)?.name, '#', all))
    .replaceAll(/<@&(\d+)>/g, (all, id: string) => {
      const role = [...world.guilds.values()].map(({ roles }) => roles.get(id)).find(Boolean)
      return name(role?.name, '@', all)
    })
    .replaceAll(/<\/([^:>]+):\d+>/g, '/$1')
    .replaceAll(/<t:-?\d+(:\w)?>/g, '(time)')
}

function name(found: string | undefined, mark: string, otherwise: string): string {
  return found === undefined ? otherwise : `${mark}${found}`
}

function withoutPort(url: string): string {
  return url.replace(/^(https?:\/\/127\.0\.0\.1):\d+/, '$1')
}
