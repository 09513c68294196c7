import type { CommandBody, CommandOption, CommandRecord } from '../state/world.ts'
import { type Body, Form, type Path } from './form.ts'

const NAME = /^[-_'\p{L}\p{N}\p{sc=Deva}\p{sc=Thai}]{1,32}$/u
const CHAT_INPUT = 1
const SUBCOMMANDS: readonly number[] = [1, 2]

export function commandPayload(
  { id, version, body }: CommandRecord,
  botId: string,
  guildId?: string,
): object {
  return {
    ...body,
    id,
    application_id: botId,
    version,
    ...(guildId && { guild_id: guildId }),
    default_permission: true,
    dm_permission: true,
    nsfw: false,
    name_localizations: body.name_localizations ?? null,
    description_localizations: body.description_localizations ?? null,
    integration_types: [0],
    contexts: body.contexts ?? null,
  }
}

/** Checks the body of a bulk overwrite: a list of commands. */
export function parseCommands(body: Body): CommandBody[] {
  const form = new Form()
  const list = form.list([], body.list) ?? []
  if (!Array.isArray(body.list)) form.add([], 'LIST_TYPE_CONVERT', 'Only iterables may be used in a ListType')
  form.length([], list, 0, 100)
  const commands = list.map((item, index) => check(form, [index], item))
  const names = new Set<string>()
  for (const [index, { name, type }] of commands.entries()) {
    if (names.has(`${type} ${name}`)) {
      form.add(
        [index, 'name'],
        'APPLICATION_COMMANDS_DUPLICATE_NAME',
        'Application command names must be unique',
      )
    }
    names.add(`${type} ${name}`)
  }
  form.throwIfAny()
  return commands
}

export function parseCommand(body: Body): CommandBody {
  const form = new Form()
  const command = check(form, [], body)
  form.throwIfAny()
  return command
}

function check(form: Form, path: Path, body: Body): CommandBody {
  const type = typeof body.type === 'number' ? body.type : CHAT_INPUT
  const name = checkName(form, [...path, 'name'], body.name, type === CHAT_INPUT)
  const isChatInput = type === CHAT_INPUT
  const description = isChatInput
    ? form.text([...path, 'description'], body.description, { min: 1, max: 100, required: true })
    : ''
  const options = checkOptions(form, [...path, 'options'], body.options)
  const permissions = body.default_member_permissions
  return {
    ...body,
    type,
    name,
    description: description ?? '',
    options,
    default_member_permissions:
      permissions === undefined || permissions === null ? null : String(permissions),
  }
}

function checkName(form: Form, path: Path, value: unknown, isStrict: boolean): string {
  const name = form.text(path, value, { min: 1, max: 32, required: true }) ?? ''
  if (isStrict && name && (!NAME.test(name) || name !== name.toLowerCase())) {
    form.add(path, 'APPLICATION_COMMAND_INVALID_NAME', 'Command name is invalid')
  }
  return name
}

function checkOptions(form: Form, path: Path, value: unknown): CommandOption[] {
  const options = (form.list(path, value) ?? []) as unknown as CommandOption[]
  form.length(path, options, 0, 25)
  const names = new Set<string>()
  let isOptionalSeen = false
  for (const [index, option] of options.entries()) {
    const at = [...path, index]
    checkName(form, [...at, 'name'], option.name, true)
    form.text([...at, 'description'], option.description, { min: 1, max: 100, required: true })
    form.choice([...at, 'type'], option.type, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    if (names.has(option.name)) {
      form.add([...at, 'name'], 'APPLICATION_COMMAND_OPTIONS_NAME_INVALID', 'Option names must be unique')
    }
    names.add(option.name)
    if (option.required && isOptionalSeen) {
      form.add(
        at,
        'APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID',
        'Required options must be placed before non-required options',
      )
    }
    if (!option.required && !SUBCOMMANDS.includes(option.type)) isOptionalSeen = true
    checkChoices(form, at, option)
    if (SUBCOMMANDS.includes(option.type)) checkOptions(form, [...at, 'options'], option.options)
  }
  return options
}

function checkChoices(form: Form, path: Path, option: CommandOption): void {
  if (!option.choices) return
  if (option.autocomplete) {
    form.add(
      [...path, 'autocomplete'],
      'APPLICATION_COMMAND_OPTIONS_CHOICES_AND_AUTOCOMPLETE',
      'autocomplete may not be set with choices',
    )
  }
  form.length([...path, 'choices'], option.choices, 0, 25)
  for (const [index, choice] of option.choices.entries()) {
    form.text([...path, 'choices', index, 'name'], choice.name, { min: 1, max: 100, required: true })
    if (typeof choice.value === 'string')
      form.length([...path, 'choices', index, 'value'], choice.value, 1, 100)
  }
}
