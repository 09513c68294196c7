import { SandboxError } from '@sandkasten/sdk'

/** The sandbox of this handle has ended, or the connection to it was lost: the handle is of no use any more. */
export function hasEnded(error: unknown): error is SandboxError {
  return SandboxError.is(error, 'not_running', 'interrupted', 'not_found', 'connection_lost', 'unavailable')
}

/** Whether the work that failed with this error may run again in the sandbox that was opened again. */
export function mayRepeat(error: SandboxError, repeatable: boolean): boolean {
  if (repeatable) return true
  return SandboxError.is(error, 'not_running', 'interrupted', 'not_found') && !error.details.started
}

/** The same error, marked so that nothing repeats the work. */
export function afterStart(error: unknown): unknown {
  if (!hasEnded(error) || error.details.started) return error
  return new SandboxError(error.code, error.message, {
    hint: error.hints,
    retryable: false,
    details: { ...error.details, started: true },
    cause: error,
    provider: error.provider,
    sandboxId: error.sandboxId,
    requestId: error.requestId,
  })
}
