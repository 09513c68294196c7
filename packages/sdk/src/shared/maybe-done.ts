import { SandboxError } from '../errors.ts'

/** The error of a call that may have been carried out, at least in part. A repeat could do it twice. */
export function maybeDone(error: unknown): unknown {
  if (!SandboxError.is(error, 'connection_lost', 'timeout') || !error.retryable) return error
  return new SandboxError(error.code, error.message, {
    retryable: false,
    hint: 'The command may have run, at least in part, and its result is lost. Look at what it did before you run it again. A command with an id of its own can be repeated.',
    details: error.details,
    cause: error,
    provider: error.provider,
    sandboxId: error.sandboxId,
    requestId: error.requestId,
  })
}
