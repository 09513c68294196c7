import { SandboxError } from '../errors.ts'

/** The failure of a call whose cleanup failed too: same code and hint, plus what is left. */
export function alsoLeft(error: unknown, problem: unknown, left: string): SandboxError {
  const first = SandboxError.is(error) ? error : undefined
  const message = error instanceof Error ? error.message : String(error)
  return new SandboxError(
    first?.code ?? 'internal',
    `${message} The cleanup failed too: ${left} is left in the sandbox.`,
    {
      hint: first?.hints,
      details: first?.details,
      cause: new AggregateError([error, problem]),
    },
  )
}
