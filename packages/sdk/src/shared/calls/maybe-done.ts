import { SandboxError } from '../../errors.ts'

/** Marks the error of a call that may have been carried out, at least in part: a repeat could take effect twice. */
export function maybeDone(error: unknown): unknown {
  if (!SandboxError.is(error, 'connection_lost', 'timeout') || !error.retryable) return error
  return new SandboxError(error.code, error.message, {
    retryable: false,
    hint: mayHaveRun,
    details: error.details,
    cause: error,
    provider: error.provider,
    sandboxId: error.sandboxId,
    requestId: error.requestId,
  })
}

/**
 * Marks the error of a command that had started with `details.started`, and as not retryable. Without the mark,
 * `not_running` and `interrupted` mean that the command never ran, so a caller may run it in a new sandbox.
 */
export function afterStart(error: unknown): unknown {
  const told = maybeDone(error)
  const hasEnded = SandboxError.is(told, 'not_running', 'interrupted', 'not_found')
  if (!SandboxError.is(told) || !(told.retryable || hasEnded)) return told
  return new SandboxError(told.code, told.message, {
    hint: hasEnded ? told.hints : mayHaveRun,
    retryable: false,
    details: { ...told.details, started: true },
    cause: told.cause ?? told,
    provider: told.provider,
    sandboxId: told.sandboxId,
    requestId: told.requestId,
  })
}

const mayHaveRun =
  'The command may have run, at least in part, but its result is lost. Check what it did before you run it again. To make a command repeatable, give it an id.'
