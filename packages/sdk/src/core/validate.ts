import { SandboxError } from '../errors.ts'
import { checkKnown } from '../shared/known-options.ts'
import { isBytesSource } from '../shared/output/bytes.ts'
import type { SandboxStatus } from '../spec/index.ts'

export { checkKnown }

/** Argument checks. Each throws `invalid_argument` with the name of the option and its valid values. */

export function invalid(what: string, hint?: string, details?: Record<string, unknown>): SandboxError {
  return new SandboxError('invalid_argument', what, {
    hint,
    details,
  })
}

export function checkPath(path: unknown, option = 'path'): string {
  if (typeof path !== 'string' || path.length === 0)
    throw invalid(`\`${option}\` must be a non-empty string.`)
  if (path.includes('\0')) throw invalid(`\`${option}\` contains a NUL character.`)
  return path
}

export function checkPort(port: unknown): number {
  if (typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65535) return port
  const shown = typeof port === 'string' ? JSON.stringify(port) : String(port)
  throw invalid(`The port ${shown} is not a port number.`, 'Use a whole number from 1 to 65535.', { port })
}

/** Without repetitions, in ascending order. */
export function checkPorts(ports: unknown): number[] {
  if (!Array.isArray(ports) || ports.length > mostPorts)
    throw invalid(`\`ports\` must be an array of at most ${mostPorts} port numbers.`)
  return [...new Set(ports.map(checkPort))].sort((a, b) => a - b)
}

const mostPorts = 100

/** Longer timers would fire immediately, so they are rejected. */
const maxMs = 2 ** 31 - 1

export function checkMs(value: unknown, option: string): number {
  if (typeof value === 'number' && Number.isFinite(value) && value > 0 && value <= maxMs) return value
  throw invalid(
    `\`${option}\` is ${String(value)}.`,
    `Use a number of milliseconds from 1 to ${maxMs}, or omit ${option}.`,
  )
}

export function checkCount(value: unknown, option: string, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= max) return value
  throw invalid(`\`${option}\` is ${String(value)}.`, `Use a whole number from 1 to ${max}.`)
}

export function checkEnv(env: unknown, option = 'env'): Record<string, string> {
  if (env === undefined) return {}
  if (typeof env !== 'object' || env === null) throw invalid(`\`${option}\` must be an object of strings.`)
  const given = Object.entries(env).filter(([, value]) => value !== undefined)
  for (const [key, value] of given) {
    if (key === '' || /[=\0]/.test(key))
      throw invalid(`\`${option}\` contains an invalid variable name: ${JSON.stringify(key)}.`)
    if (typeof value !== 'string')
      throw invalid(`\`${option}.${key}\` must be a string.`, 'Convert it with String(value), or omit it.')
    if (value.includes('\0')) throw invalid(`\`${option}.${key}\` contains a NUL character.`)
  }
  return Object.fromEntries(given)
}

export function checkLabels(labels: unknown, option = 'labels'): Record<string, string> {
  if (labels === undefined) return {}
  if (typeof labels !== 'object' || labels === null)
    throw invalid(`\`${option}\` must be an object of strings.`)
  for (const [key, value] of Object.entries(labels)) {
    if (key === '' || typeof value !== 'string') throw invalid(`\`${option}.${key}\` must be a string.`)
  }
  return { ...(labels as Record<string, string>) }
}

export function checkName(name: unknown): string {
  if (typeof name === 'string' && name.length > 0 && name.length <= 200 && !/\p{Cc}/u.test(name)) return name
  throw invalid('`name` must be a string of 1 to 200 printable characters.')
}

const statuses: readonly SandboxStatus[] = [
  'creating',
  'running',
  'paused',
  'stopped',
  'archived',
  'failed',
  'destroyed',
  'unknown',
]

export function checkStatus(status: unknown): void {
  for (const one of Array.isArray(status) ? status : [status])
    if (!statuses.includes(one))
      throw invalid(`There is no status ${JSON.stringify(one)}.`, `Use ${statuses.join(', ')}.`)
}

export function checkResources(resources: unknown): void {
  if (typeof resources !== 'object' || resources === null)
    throw invalid('`resources` must be an object.', 'For example { vcpus: 2, memoryMb: 1024 }.')
  checkKnown(resources, ['vcpus', 'memoryMb', 'diskMb'], '`resources`')
  for (const [name, value] of Object.entries(resources)) {
    if (value === undefined || (typeof value === 'number' && Number.isFinite(value) && value > 0)) continue
    throw invalid(`\`resources.${name}\` is ${String(value)}.`, 'Use a number above 0, or omit it.')
  }
}

export function checkCommand(cmd: unknown, args: unknown): { cmd: string; args: string[] } {
  if (typeof cmd !== 'string' || cmd.length === 0) throw invalid('`cmd` must be a non-empty string.')
  if (args !== undefined && !Array.isArray(args)) {
    throw invalid(
      '`args` must be an array of strings.',
      "For a shell line, use cmd: 'sh', args: ['-c', line].",
    )
  }
  const list: unknown[] = args ?? []
  for (const arg of [cmd, ...list]) {
    if (typeof arg !== 'string') throw invalid('`args` must contain only strings.')
    if (arg.includes('\0')) throw invalid('`cmd` or `args` contains a NUL character.')
  }
  return { cmd, args: [...(list as string[])] }
}

export function checkSource(data: unknown, option: string): void {
  if (!isBytesSource(data))
    throw invalid(`\`${option}\` must be a string, a Uint8Array, a ReadableStream or an async iterable.`)
}

export function checkMode(mode: unknown): number {
  if (typeof mode === 'number' && Number.isInteger(mode) && mode >= 0 && mode <= 0o7777) return mode
  throw invalid(`${String(mode)} is not a file mode.`, 'Use an octal number such as 0o644.')
}
