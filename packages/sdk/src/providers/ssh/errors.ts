import { SandboxError } from '../../errors.ts'
import { type GuestErrorFacts, guestError } from '../../shared/guest/errors.ts'
import type { SshSettings } from './options.ts'

export function agentError(
  status: number | undefined,
  facts: Omit<GuestErrorFacts, 'provider'>,
): SandboxError {
  return guestError(status, { provider: 'ssh', ...facts })
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
