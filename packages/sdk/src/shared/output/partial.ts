import { SandboxError } from '../../errors.ts'

/** The most output of each stream in an error: errors are logged and sent. */
export const partialBytes = 64 * 1024

/** Adds the output so far to an error that ended a call before its command. */
export function withOutput(error: unknown, output: Readonly<Record<string, unknown>>): unknown {
  if (!SandboxError.is(error, 'aborted', 'timeout')) return error
  const { code, message, hints, retryable, provider, sandboxId, requestId } = error
  return new SandboxError(code, message, {
    hint: hints,
    retryable,
    provider,
    sandboxId,
    requestId,
    cause: error.cause,
    details: { ...error.details, ...output },
  })
}
