import { SandboxError } from '@sandkasten/sdk'

/**
 * Limits on what a caller may attach to a session or a command. The API and all vendor fronts share them,
 * because a row in the database and a page of a list are only bounded if each of their parts is.
 */
export const requestLimits = {
  nameChars: 200,
  labels: 64,
  labelKeyChars: 200,
  labelValueChars: 4096,
  /** All labels of a session, as JSON. */
  labelsBytes: 16_384,
  envVars: 1000,
  /** The names are stored and listed; the values are not. */
  envNamesBytes: 32_768,
  envBytes: 262_144,
  /** A program and its arguments. Linux refuses more than about 2 MiB with the environment. */
  argvBytes: 2_097_152,
  /** Per session. */
  shells: 256,
  terminals: 1000,
  openPorts: 256,
  volumes: 16,
} as const

type Strings = Readonly<Record<string, string>>

export function checkName(name: string | undefined): void {
  if (name === undefined) return
  if (name === '' || name.length > requestLimits.nameChars || /\p{Cc}/u.test(name))
    throw refused(`name must be 1 to ${requestLimits.nameChars} printable characters.`)
}

export function checkLabels(labels: Strings = {}): void {
  const entries = Object.entries(labels)
  if (entries.length > requestLimits.labels)
    throw refused(`labels: ${entries.length} labels are more than the ${requestLimits.labels} allowed.`)
  for (const [key, value] of entries)
    if (
      key === '' ||
      key.length > requestLimits.labelKeyChars ||
      value.length > requestLimits.labelValueChars
    )
      throw refused(
        `labels: a key must be 1 to ${requestLimits.labelKeyChars} characters, ` +
          `a value at most ${requestLimits.labelValueChars}.`,
      )
  atMost(Buffer.byteLength(JSON.stringify(labels)), requestLimits.labelsBytes, 'labels')
}

export function checkEnv(env: Strings = {}): void {
  const names = Object.keys(env)
  if (names.length > requestLimits.envVars)
    throw refused(`env: ${names.length} variables are more than the ${requestLimits.envVars} allowed.`)
  atMost(Buffer.byteLength(JSON.stringify(names)), requestLimits.envNamesBytes, 'env: the names')
  const bytes = names.reduce((sum, name) => sum + Buffer.byteLength(name) + Buffer.byteLength(env[name]!), 0)
  atMost(bytes, requestLimits.envBytes, 'env')
}

export function checkArgv(cmd: string | undefined, args: readonly string[] = []): void {
  const bytes = args.reduce((sum, arg) => sum + Buffer.byteLength(arg) + 1, Buffer.byteLength(cmd ?? ''))
  atMost(bytes, requestLimits.argvBytes, 'cmd and args')
}

/** Checks the number of shells, terminals or ports before one is added. `there` is how many exist now. */
export function checkCount(there: number, limit: 'shells' | 'terminals' | 'openPorts'): void {
  const most = requestLimits[limit]
  if (there < most) return
  const what = { shells: 'shells', terminals: 'terminals', openPorts: 'open ports' }[limit]
  throw new SandboxError('quota_exceeded', `The session already has ${there} ${what}; ${most} are allowed.`, {
    details: { limit: most },
    hint: 'Close some of them, or create another session.',
  })
}

function atMost(bytes: number, most: number, what: string): void {
  if (bytes > most) throw refused(`${what}: ${bytes} bytes are more than the ${most} allowed.`)
}

function refused(message: string): SandboxError {
  return new SandboxError('invalid_argument', message, {
    details: { limits: requestLimits },
    hint: 'Send less; put large values into a file of the sandbox.',
  })
}
