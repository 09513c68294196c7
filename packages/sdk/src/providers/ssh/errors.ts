import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import type { SshSettings } from './options.ts'

/** The meaning of the agent's exit codes. They are above 63 to avoid a shell's own exit codes. */
const agentCodes: Readonly<Record<number, [SandboxErrorCode, string]>> = {
  70: ['provider_error', 'The host could not start the program'],
  71: ['not_found', 'The sandbox does not exist'],
  72: ['not_running', 'The sandbox is stopped'],
  73: ['interrupted', 'The sandbox was restarted since this handle was created'],
  74: ['conflict', 'A sandbox with that name exists already'],
  75: ['cwd_not_found', 'The working directory does not exist'],
  76: ['command_not_found', 'The program does not exist on the host'],
  77: ['permission_denied', 'The account lacks the permission'],
  78: ['path_outside', 'The path leads out of the sandbox’s folder'],
  79: ['not_found', 'The process does not exist in this sandbox'],
  81: ['stdin_closed', 'The program’s stdin is closed'],
  82: ['disk_full', 'The host could not write its files'],
  83: ['not_running', 'The terminal’s program has ended'],
  84: ['not_running', 'The shell is closed'],
  85: ['unsupported', 'The host lacks a required program'],
  86: ['provider_error', 'The sandbox’s runner is not running'],
}

export function agentError(
  status: number | undefined,
  facts: { sandboxId?: string; what?: string; stderr?: string; hint?: string },
): SandboxError {
  const [code, words] = agentCodes[status ?? -1] ?? [
    'provider_error',
    `The host answered with exit code ${String(status)}`,
  ]
  const what = facts.what ? `: ${facts.what}` : ''
  const said = code === 'provider_error' && facts.stderr ? ` (${facts.stderr.trim().slice(-500)})` : ''
  return new SandboxError(code, `${words}${what}${said}.`, {
    provider: 'ssh',
    sandboxId: facts.sandboxId,
    hint: facts.hint,
    details: { status },
  })
}

export function connectionLost(settings: SshSettings, cause?: unknown): SandboxError {
  return new SandboxError('connection_lost', `The connection to ${nameOf(settings)} was lost.`, {
    provider: 'ssh',
    hint: 'The call may have arrived; it is not repeated. Programs continue: re-attach with getProcess(id) and output({ after }).',
    cause,
  })
}

export function diskFull(what: string, cause: unknown): SandboxError {
  return new SandboxError('disk_full', `${what}: the host’s disk is full.`, {
    provider: 'ssh',
    hint: 'Free space on the disk of the host that holds `root`, by default the account’s home.',
    cause,
  })
}

/** Classifies a failed connection by ssh2's levels and the system's error codes, never by message text. */
export function connectError(settings: SshSettings, error: unknown): SandboxError {
  if (SandboxError.is(error)) return error
  const { level, code } = error as { level?: unknown; code?: unknown }
  const host = nameOf(settings)
  const options = { provider: 'ssh', cause: error }
  if (level === 'client-authentication')
    return new SandboxError('unauthenticated', `${host} refused the account ${settings.username}.`, {
      ...options,
      hint: 'Check `username`, and that the public key is in ~/.ssh/authorized_keys there.',
    })
  if (level === 'agent')
    return new SandboxError('unauthenticated', `The ssh-agent at ${settings.agent} could not be used.`, {
      ...options,
      hint: 'Check SSH_AUTH_SOCK, or pass `privateKeyPath`.',
    })
  if (level === 'client-timeout')
    return new SandboxError('unavailable', `${host} did not answer within ${settings.connectTimeoutMs} ms.`, {
      ...options,
      hint: 'Check the host, or raise connectTimeoutMs.',
    })
  const reason = typeof code === 'string' ? ` (${code})` : ''
  return new SandboxError('unavailable', `${host} cannot be reached${reason}.`, {
    ...options,
    hint: 'Check `host` and `port`, and that an SSH server listens there.',
    details: typeof code === 'string' ? { errno: code } : undefined,
  })
}

export function nameOf({ host, port }: Pick<SshSettings, 'host' | 'port'>): string {
  return port === 22 ? host : `${host}:${port}`
}
