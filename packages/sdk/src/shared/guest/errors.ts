import { SandboxError, type SandboxErrorCode } from '../../errors.ts'

/** The meaning of an agent's exit codes. They are above 63 to avoid a shell's own exit codes. */
const codes: Readonly<Record<number, [SandboxErrorCode, string]>> = {
  70: ['provider_error', 'The program could not be started'],
  71: ['not_found', 'The sandbox does not exist'],
  72: ['not_running', 'The sandbox is stopped'],
  73: ['interrupted', 'The sandbox was restarted since this handle was created'],
  74: ['conflict', 'A sandbox with that name exists already'],
  75: ['cwd_not_found', 'The working directory does not exist'],
  76: ['command_not_found', 'The program does not exist'],
  77: ['permission_denied', 'The account lacks the permission'],
  78: ['path_outside', 'The path leads out of the sandbox’s folder'],
  79: ['not_found', 'The process does not exist in this sandbox'],
  81: ['stdin_closed', 'The program’s stdin is closed'],
  82: ['disk_full', 'The agent in the sandbox could not write its files'],
  83: ['not_running', 'The terminal’s program has ended'],
  85: ['unsupported', 'A required program is missing'],
  86: ['provider_error', 'The sandbox’s runner is not running'],
  99: ['provider_error', 'The agent could not be installed in /tmp of the sandbox'],
}

export interface GuestErrorFacts {
  readonly provider: string
  readonly sandboxId?: string | undefined
  /** The subject of the message. */
  readonly what?: string | undefined
  readonly stderr?: string | undefined
  readonly hint?: string | undefined
}

export function guestError(status: number | undefined, facts: GuestErrorFacts): SandboxError {
  const [code, words] = codes[status ?? -1] ?? [
    'provider_error',
    `The agent in the sandbox exited with ${String(status)}`,
  ]
  const { provider, sandboxId, hint, what, stderr } = facts
  const said = code === 'provider_error' && stderr ? ` (${stderr.trim().slice(-500)})` : ''
  return new SandboxError(code, `${words}${what ? `: ${what}` : ''}${said}.`, {
    provider,
    sandboxId,
    hint,
    details: { status },
  })
}
