import { InvalidArgumentError } from 'commander'

export function parsePort(text: string, before: readonly number[] = []): number[] {
  const port = Number(text)
  if (/^\d{1,5}$/.test(text) && port >= 1 && port <= 65535) return [...before, port]
  throw new InvalidArgumentError('Use a whole number from 1 to 65535.')
}

/** `name=value`. Numbers, `true`, `false` and JSON are taken as such; everything else is text. */
export function parseProviderOption(
  text: string,
  before: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  const equals = text.indexOf('=')
  if (equals < 1) throw new InvalidArgumentError('Use name=value, such as pids=64.')
  return { ...before, [text.slice(0, equals)]: parsed(text.slice(equals + 1)) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
