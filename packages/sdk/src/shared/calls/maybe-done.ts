import { SandboxError } from '../../errors.ts'

/** Marks the error of a call that may have been carried out, at least in part: a repeat could take effect twice. */
export function maybeDone(error: unknown): unknown {
  if (!SandboxError.is(error, 'connection_lost', 'timeout') || !error.retryable) return error
  return new SandboxError(error.code, error.message, {
    retryable: false,
    hint: 'The command may have run, at least in part, but its result is lost. Check what it did before you run it again. To make a command repeatable, give it an id.',
    details: error.details,
    cause: error,
    provider: error.provider,
    sandboxId: error.sandboxId,
    requestId: error.requestId,
  })
}
