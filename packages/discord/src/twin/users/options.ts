import type { Core } from '../core.ts'
import { storeFile, type Upload } from '../state/files.ts'
import { attachmentPayload } from '../state/message-payload.ts'
import type { ChannelRecord, CommandOption, CommandRecord } from '../state/world.ts'
import { addResolved, type Resolved, type ResolvedKind } from './resolved.ts'

/** The value of a command's option. Users, channels and roles are given as an object with an id, or as the id. */
export type OptionValue = string | number | boolean | Upload | { readonly id: string }

type Options = Readonly<Record<string, OptionValue>>

interface EncodedOption {
  name: string
  type: number
  value?: string | number | boolean
  options?: EncodedOption[]
  focused?: boolean
}

const TYPE = {
  subcommand: 1,
  group: 2,
  string: 3,
  integer: 4,
  boolean: 5,
  user: 6,
  channel: 7,
  role: 8,
  mentionable: 9,
  number: 10,
  attachment: 11,
}

const KINDS_OF_OPTION: Readonly<Record<number, readonly ResolvedKind[]>> = {
  6: ['user'],
  7: ['channel'],
  8: ['role'],
  9: ['user', 'role'],
}

/**
 * The `data` of an interaction with a command. Like Discord's own client it refuses what the command does not allow:
 * unknown options, missing ones, and wrong values.
 */
export function encodeCommand(
  core: Core,
  channel: ChannelRecord,
  command: CommandRecord,
  path: readonly string[],
  values: Options,
  focused?: string,
): object {
  const resolved: Resolved = {}
  const encode = (options: readonly CommandOption[], rest: readonly string[]): EncodedOption[] => {
    const sub = options.find(({ type }) => type === TYPE.subcommand || type === TYPE.group)
    if (sub) {
      const chosen = options.find(({ name }) => name === rest[0])
      if (!chosen)
        throw new Error(
          `/${command.body.name} needs a subcommand: ${options.map(({ name }) => name).join(', ')}`,
        )
      return [{ name: chosen.name, type: chosen.type, options: encode(chosen.options ?? [], rest.slice(1)) }]
    }
    checkNames(command.body.name, options, values, focused !== undefined)
    return options.flatMap((option): EncodedOption[] => {
      const value = values[option.name]
      if (value === undefined) return []
      const isFocused = option.name === focused
      if (!isFocused) checkValue(command.body.name, option, value)
      const encoded = resolve(core, channel, option, value, resolved)
      return [{ name: option.name, type: option.type, value: encoded, ...(isFocused && { focused: true }) }]
    })
  }
  const options = encode(command.body.options, path)
  return {
    id: command.id,
    name: command.body.name,
    type: command.body.type,
    ...(options.length && { options }),
    ...(Object.keys(resolved).length && { resolved }),
  }
}

/** The option that `path` leads to, for autocomplete. */
export function findOption(
  command: CommandRecord,
  path: readonly string[],
  name: string,
): CommandOption | undefined {
  let options = command.body.options
  for (const part of path) options = options.find((option) => option.name === part)?.options ?? []
  return options.find((option) => option.name === name)
}

function checkNames(
  command: string,
  options: readonly CommandOption[],
  values: Options,
  isPartial: boolean,
): void {
  const unknown = Object.keys(values).find((name) => !options.some((option) => option.name === name))
  if (unknown) {
    throw new Error(
      `/${command} has no option "${unknown}"; it has: ${options.map(({ name }) => name).join(', ')}`,
    )
  }
  const missing = options.find(({ name, required }) => required && values[name] === undefined)
  if (missing && !isPartial) throw new Error(`/${command} needs the option "${missing.name}"`)
}

function checkValue(command: string, option: CommandOption, value: OptionValue): void {
  const fail = (reason: string) => new Error(`/${command}: option "${option.name}" ${reason}`)
  const { type, choices } = option
  if (type === TYPE.string && typeof value !== 'string') throw fail('needs a string')
  if (type === TYPE.boolean && typeof value !== 'boolean') throw fail('needs a boolean')
  if (type === TYPE.integer && !Number.isInteger(value)) throw fail('needs an integer')
  if (type === TYPE.number && typeof value !== 'number') throw fail('needs a number')
  if (choices?.length && !choices.some((choice) => choice.value === value)) {
    throw fail(`must be one of: ${choices.map((choice) => choice.value).join(', ')}`)
  }
  if (typeof value === 'string' && type === TYPE.string) {
    if (value.length > (option.max_length ?? 6000)) throw fail('is too long')
    if (value.length < (option.min_length ?? 0)) throw fail('is too short')
  }
  if (typeof value === 'number') {
    if (value > (option.max_value ?? Number.POSITIVE_INFINITY)) throw fail('is too large')
    if (value < (option.min_value ?? Number.NEGATIVE_INFINITY)) throw fail('is too small')
  }
}

function resolve(
  core: Core,
  channel: ChannelRecord,
  option: CommandOption,
  value: OptionValue,
  resolved: Resolved,
): string | number | boolean {
  if (typeof value === 'object' && 'bytes' in value) {
    const file = storeFile(core, channel.id, value, true)
    resolved.attachments = { ...resolved.attachments, [file.id]: attachmentPayload(file) }
    return file.id
  }
  const kinds = KINDS_OF_OPTION[option.type]
  if (typeof value !== 'object' && !kinds) return value
  const id = typeof value === 'object' ? value.id : String(value)
  if (!addResolved(core, channel, resolved, id, kinds ?? [])) {
    throw new Error(`option "${option.name}": nothing that it takes has the id ${id}`)
  }
  return id
}
