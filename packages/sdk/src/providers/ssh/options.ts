import { homedir } from 'node:os'
import path from 'node:path'
import { checkKnown, checkMs, checkPath, checkPort, invalid } from '../../core/validate.ts'
import type { Ssh2 } from './sdk.ts'

export interface SshProviderOptions {
  host: string
  /** Default 22. */
  port?: number
  /** Default: this process's account name. */
  username?: string
  /** The text of a private key, in OpenSSH's or PEM format. Default: the agent, then `~/.ssh/id_ed25519`, `id_ecdsa` and `id_rsa`. */
  privateKey?: string | Uint8Array
  /** The file of a private key. */
  privateKeyPath?: string
  passphrase?: string
  /** The socket of an ssh-agent. Default: `SSH_AUTH_SOCK`, unless a key is given. `false` uses no agent. */
  agent?: string | false
  /** `known_hosts` files. Default: `~/.ssh/known_hosts` and `/etc/ssh/ssh_known_hosts`. */
  knownHosts?: string | readonly string[]
  /** The host's key itself (`ssh-ed25519 AAAA…`) or its fingerprint (`SHA256:…`), instead of `knownHosts`. */
  hostKey?: string | readonly string[]
  /** Connect to a host with an unknown key. A man in the middle can then read and change everything. A changed key is still refused. */
  acceptUnknownHost?: boolean
  /** Where sandboxes are kept on the host. Relative to the account's home. Default `.sandkasten/ssh`. */
  root?: string
  /** How long a connection may take. Default 20 s. */
  connectTimeoutMs?: number
  /** The interval of pings to a silent host. After three unanswered pings the connection is lost. Default 15 s. */
  pingMs?: number
  /** How many sessions one connection may carry; more are opened on further connections. Default 8: OpenSSH allows 10. */
  maxSessions?: number
  /**
   * The binary of our runner for the host’s processor. It is copied to the host and supervises programs. Default:
   * `SANDKASTEN_RUNNER`, then the binary of @sandkasten/engine, if that is installed. With `false`, or if the host cannot
   * execute it, a shell script supervises programs.
   */
  runner?: string | false
  /** Confirms that commands can do everything that the account can. Hides the warning. */
  acceptNoIsolation?: boolean
  /** The module `ssh2`, if you have loaded it. Default: the installed package. */
  sdk?: Ssh2
}

export interface SshSettings {
  readonly host: string
  readonly port: number
  readonly username: string
  readonly privateKey?: string | Uint8Array
  readonly privateKeyPath?: string
  readonly passphrase?: string
  readonly agent: string | undefined
  readonly knownHosts: readonly string[]
  readonly hostKeys: readonly string[]
  readonly acceptUnknownHost: boolean
  readonly root: string
  readonly connectTimeoutMs: number
  readonly pingMs: number
  readonly maxSessions: number
  /** `false` uses no runner. Undefined uses the installed one. */
  readonly runner: string | false | undefined
  readonly sdk?: Ssh2
}

export function settingsOf(options: SshProviderOptions, env = process.env): SshSettings {
  if (typeof options !== 'object' || options === null)
    throw invalid(
      'SshProvider needs the option `host`.',
      "For example new SshProvider({ host: 'build.example' }).",
    )
  checkKnown(options, known, 'SshProvider')
  const host = checkPath(options.host, 'host')
  if (!isHostName(host)) throw invalid(`\`host\` is ${JSON.stringify(host)}, which is not a host name.`)
  const username = options.username ?? env.USER ?? env.LOGNAME ?? ''
  if (username === '') throw invalid('`username` is not given, and this process has no account name.')
  const { privateKey, privateKeyPath, passphrase, sdk } = options
  if (privateKey !== undefined && privateKeyPath !== undefined)
    throw invalid('`privateKey` and `privateKeyPath` are both given.', 'Leave one of them out.')
  const hasKey = privateKey !== undefined || privateKeyPath !== undefined
  const agent = options.agent ?? (hasKey ? undefined : env.SSH_AUTH_SOCK)
  const sessions = options.maxSessions ?? 8
  if (!Number.isInteger(sessions) || sessions < 2 || sessions > 1000)
    throw invalid(`\`maxSessions\` is ${String(sessions)}.`, 'Use a whole number from 2 to 1000.')
  const home = path.join(homedir(), '.ssh')
  return {
    host,
    port: options.port === undefined ? 22 : checkPort(options.port),
    username,
    privateKey,
    privateKeyPath: privateKeyPath === undefined ? undefined : checkPath(privateKeyPath, 'privateKeyPath'),
    passphrase,
    agent: agent || undefined,
    knownHosts: listOf(options.knownHosts) ?? [path.join(home, 'known_hosts'), '/etc/ssh/ssh_known_hosts'],
    hostKeys: listOf(options.hostKey) ?? [],
    acceptUnknownHost: options.acceptUnknownHost ?? false,
    root: checkPath(options.root ?? '.sandkasten/ssh', 'root'),
    connectTimeoutMs: checkMs(options.connectTimeoutMs ?? 20_000, 'connectTimeoutMs'),
    pingMs: checkMs(options.pingMs ?? 15_000, 'pingMs'),
    maxSessions: sessions,
    runner:
      options.runner === false ? false : runnerOf(options.runner ?? (env.SANDKASTEN_RUNNER || undefined)),
    sdk,
  }
}

/** Parses `SANDKASTEN_SSH_HOST`: `[user@]host[:port]`. */
export function sshOptionsOf(env: Readonly<Record<string, string | undefined>>): SshProviderOptions {
  const target = sshTargetOf(env.SANDKASTEN_SSH_HOST ?? '')
  if (target === undefined)
    throw invalid('SANDKASTEN_SSH_HOST does not name a host.', 'Set it to user@host or user@host:port.')
  return target
}

/** The parts of `[user@]host[:port]`. An IPv6 address with a port has brackets. */
export function sshTargetOf(
  text: string,
): Pick<SshProviderOptions, 'host' | 'username' | 'port'> | undefined {
  const [, username, bracketed, plain, port] =
    /^(?:([^@\s]+)@)?(?:\[([^\]\s]+)\]|([^@:\s]+))(?::(\d{1,5}))?$/.exec(text) ?? []
  const host = bracketed ?? plain
  if (host === undefined || !isHostName(host)) return undefined
  return { host, username, port: port === undefined ? undefined : Number(port) }
}

/** Refuses patterns of known_hosts, and what a command line would take for an option. */
function isHostName(host: string): boolean {
  return !/[\s,*?!|\p{Cc}]|^-/u.test(host)
}

function listOf(value: string | readonly string[] | undefined): readonly string[] | undefined {
  return typeof value === 'string' ? [value] : value
}

function runnerOf(file: string | undefined): string | undefined {
  return file === undefined ? undefined : checkPath(file, 'runner')
}

const known: ReadonlyArray<keyof SshProviderOptions> = [
  'host',
  'port',
  'username',
  'privateKey',
  'privateKeyPath',
  'passphrase',
  'agent',
  'knownHosts',
  'hostKey',
  'acceptUnknownHost',
  'root',
  'connectTimeoutMs',
  'pingMs',
  'maxSessions',
  'runner',
  'acceptNoIsolation',
  'sdk',
]
