import { InvalidArgumentError } from 'commander'

/** `512m`, `2g`, `1048576`: as mebibytes. */
export function parseSize(text: string): number {
  const match = /^(\d+(?:\.\d+)?)([kmg]?)b?$/i.exec(text)
  if (!match) throw new InvalidArgumentError('Use a number and a unit, such as 512m or 2g.')
  const unit = { '': 1 / 1024 / 1024, k: 1 / 1024, m: 1, g: 1024 }[
    match[2]!.toLowerCase() as '' | 'k' | 'm' | 'g'
  ]
  return Number(match[1]) * unit
}

/** A value on the command line is seen by everyone on the machine (`ps`); a name alone is not. */
export function parseEnv(text: string, before: Record<string, string>): Record<string, string> {
  const equals = text.indexOf('=')
  if (equals === 0) throw new InvalidArgumentError('A variable needs a name.')
  if (equals > 0) return { ...before, [text.slice(0, equals)]: text.slice(equals + 1) }
  const value = process.env[text]
  if (value === undefined)
    throw new InvalidArgumentError(`There is no variable ${text} on this machine; use ${text}=value.`)
  return { ...before, [text]: value }
}
