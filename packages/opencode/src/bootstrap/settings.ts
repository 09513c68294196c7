import { randomBytes } from 'node:crypto'
import { type SandboxCore, SandboxError } from '@sandkasten/sdk'
import type { Agent, agents } from '../agents/index.ts'
import { credentialEnvironment } from '../credentials.ts'
import { type Redact, redactor, secretsIn } from '../redact.ts'
import type { BootstrapOptions } from './options.ts'
import type { BootstrapProgress } from './progress.ts'

export const OPENCODE_PORT = 7777

/** The options of a bootstrap, checked and completed. */
export interface Settings {
  readonly agent: Agent
  readonly version: string
  readonly port: number
  readonly cwd: string
  /** The caller’s password, or that of a server which this process has started. */
  readonly password: string | undefined
  /** For a server that has to be started. */
  readonly newPassword: string
  readonly hostnames: readonly string[]
  readonly binary: string | undefined
  readonly restart: boolean
  /** Variables of the agent, without those that depend on the sandbox. */
  readonly env: Readonly<Record<string, string>>
  /** Those that say where the agent’s files are. */
  readonly placesEnv: Readonly<Record<string, string>>
  readonly model: string | undefined
  readonly config: BootstrapOptions['config']
  readonly redact: Redact
  readonly deadlineMs: number
  readonly report: (progress: BootstrapProgress) => void
}

export function settingsOf(
  handle: SandboxCore,
  agent: Agent,
  options: BootstrapOptions,
  known?: string,
): Settings {
  const {
    version = agent.version,
    port = OPENCODE_PORT,
    cwd = handle.workdir,
    deadlineMs = 180_000,
  } = options
  const { credentials = [], config, password = known, restart = false } = options
  if (!/^\d+\.\d+\.\d+[\w.+-]*$/.test(version) || version.length > 60)
    throw wrong(
      `The version “${String(version).slice(0, 60)}” is not exact.`,
      `For example ${agent.version}.`,
    )
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    throw wrong(`The port ${String(port)} is invalid.`, 'Use 1 to 65535.')
  if (!Number.isInteger(deadlineMs) || deadlineMs < 1 || deadlineMs > 86_400_000)
    throw wrong('`deadlineMs` is invalid.', 'Use 1 to 86400000.')
  if (password !== undefined && !/^[\x21-\x7e]{16,256}$/.test(password))
    throw wrong(
      'The password is too weak, or has other characters.',
      'Use 16 to 256 printable ASCII characters.',
    )
  const given = Object.entries(options.envVars ?? {}).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  )
  const reserved = given.find(
    ([name]) => name === agent.server?.passwordVariable || name === agent.server?.userVariable,
  )
  if (reserved) throw wrong(`The variable ${reserved[0]} cannot be set.`, 'Use the option `password`.')
  const fromCredentials = credentialEnvironment(handle, agent, credentials, process.env)
  const env = { ...fromCredentials.env, ...Object.fromEntries(given) }
  const newPassword = options.password ?? randomBytes(24).toString('base64url')
  const secrets = [
    ...fromCredentials.secrets,
    ...secretsIn(env),
    ...secretsIn(config),
    newPassword,
    password ?? '',
  ]
  if (agent.server) secrets.push(`${agent.server.user}:${newPassword}`)
  return {
    agent,
    version,
    port,
    cwd,
    password,
    newPassword,
    hostnames: options.hostname === undefined ? ['127.0.0.1', '0.0.0.0'] : [options.hostname],
    binary: options.binary,
    restart,
    env,
    placesEnv: Object.fromEntries(given.filter(([name]) => isPlace(name))),
    model: options.model,
    config,
    redact: redactor(secrets),
    deadlineMs,
    report: options.onProgress ?? (() => {}),
  }
}

/** Everything that the agent’s program gets. */
export function programEnvironment(settings: Settings, folder: string): Record<string, string> {
  const { agent, model, config, env } = settings
  return { ...agent.environment({ folder, model, config }), ...env }
}

export function nameOf(agent: Agent): keyof typeof agents {
  return agent.name as keyof typeof agents
}

function isPlace(name: string): boolean {
  return name === 'HOME' || name === 'PATH' || name === 'TMPDIR' || name.startsWith('XDG_')
}

function wrong(message: string, hint: string): SandboxError {
  return new SandboxError('invalid_argument', message, { hint })
}
