import { type Command, InvalidArgumentError } from 'commander'

export interface PlaceOptions {
  config?: string
  dataDir?: string
}

export function withPlaceOptions(command: Command): Command {
  return command
    .option(
      '--config <file>',
      'the daemon’s configuration; default: sandkasten.yaml in the current folder, if it exists',
    )
    .option('--data-dir <folder>', 'the daemon’s data folder, which contains its images')
}

/** Parses `512m`, `2g` or `1048576` to mebibytes. */
export function parseSize(text: string): number {
  const match = /^(\d+(?:\.\d+)?)([kmg]?)b?$/i.exec(text)
  if (!match) throw new InvalidArgumentError('Use a number and a unit, such as 512m or 2g.')
  const unit = { '': 1 / 1024 / 1024, k: 1 / 1024, m: 1, g: 1024 }[
    match[2]!.toLowerCase() as '' | 'k' | 'm' | 'g'
  ]
  return Number(match[1]) * unit
}

/** Parses `90`, `90s`, `30m`, `2h` or `7d` to seconds. */
export function parseDuration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(s|m|min|h|d)?$/i.exec(text.trim())
  const seconds = match ? Number(match[1]) * unitSeconds[(match[2]?.toLowerCase() ?? 's') as 's'] : 0
  if (seconds > 0) return seconds
  throw new InvalidArgumentError('Use seconds, or a number and a unit, such as 90s, 30m, 2h or 7d.')
}

const unitSeconds = { s: 1, m: 60, min: 60, h: 3_600, d: 86_400 }

export function parseNumber(text: string): number {
  const number = Number(text)
  if (text.trim() !== '' && Number.isFinite(number) && number >= 0) return number
  throw new InvalidArgumentError('Use a number.')
}

export function parseMode(text: string): string {
  if (/^0?[0-7]{3,4}$/.test(text)) return text.slice(-4)
  throw new InvalidArgumentError('Use octal digits, such as 755.')
}

export function parseLabel(text: string, before: Record<string, string> = {}): Record<string, string> {
  const equals = text.indexOf('=')
  if (equals < 1) throw new InvalidArgumentError('Use key=value.')
  return { ...before, [text.slice(0, equals)]: text.slice(equals + 1) }
}

/** Parses `NAME=value` or `NAME`. A value on the command line is visible to all users (`ps`); a bare name is not. */
export function parseEnv(text: string, before: Record<string, string> = {}): Record<string, string> {
  const equals = text.indexOf('=')
  if (equals === 0) throw new InvalidArgumentError('A variable needs a name.')
  if (equals > 0) return { ...before, [text.slice(0, equals)]: text.slice(equals + 1) }
  const value = process.env[text]
  if (value === undefined)
    throw new InvalidArgumentError(`The variable ${text} is not set on this machine; use ${text}=value.`)
  return { ...before, [text]: value }
}
