import type { SandboxErrorCode } from '@sandkasten/sdk'
import { reportError } from '../errors.ts'
import { Interrupted } from './interrupt.ts'

/** The default hints of errors speak of sessions. These speak of named sandboxes. */
const hints: Partial<Record<SandboxErrorCode, string>> = {
  not_found: 'List the sandboxes with sandkasten sandbox list.',
  conflict: 'See the sandbox with sandkasten sandbox show NAME.',
  unauthenticated: 'Set the provider up again: sandkasten sandbox setup PROVIDER.',
  forbidden: 'Set the provider up with credentials that may do this: sandkasten sandbox setup PROVIDER.',
  not_running: 'Start it with sandkasten sandbox start NAME.',
  interrupted:
    'Another terminal or thread has stopped, replaced or destroyed the sandbox. Run the command again.',
  too_large: 'Copy it with sandkasten sandbox cp, which takes any size.',
  quota_exceeded: 'Destroy sandboxes that you do not need: sandkasten sandbox destroy NAME.',
  unsupported: 'Leave the option out, or use another provider: sandkasten sandbox providers.',
  provider_error: 'Try again; sandkasten sandbox list --refresh shows what the provider says.',
  unavailable: 'Try again in a moment; sandkasten sandbox list --refresh shows what the provider says.',
  connection_lost: 'The command may still run. Look with sandkasten sandbox exec NAME -- ps.',
}

/** Prints a failure of `sandkasten sandbox`, and returns the exit code. */
export function report(error: unknown): number {
  return error instanceof Interrupted ? error.exitCode : reportError(error, hints)
}

/** The same for one of several items. An interrupt ends the others, too. */
export function reportItem(error: unknown): number {
  if (error instanceof Interrupted) throw error
  return report(error)
}
