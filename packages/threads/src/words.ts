import { SandboxError } from '@sandkasten/sdk'

export interface Problem {
  readonly message: string
  readonly hint?: string
}

/** An error for people in a chat. Errors that are no `SandboxError` may contain anything, so their text is not shown. */
export function problemOf(error: unknown): Problem {
  if (!SandboxError.is(error))
    return {
      message: 'Something unexpected failed.',
      hint: 'Try again. The log of the program has the reason.',
    }
  // People in a chat call no methods of the SDK.
  const hint = error.hints.http || (error.retryable ? 'Write a message to try again.' : undefined)
  return { message: error.message, hint }
}

export function textOf({ message, hint }: Problem): string {
  return hint === undefined ? message : `${message} ${hint}`
}
