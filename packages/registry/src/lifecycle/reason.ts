import { SandboxError } from '@sandkasten/sdk'

/** The reason that a row keeps: the error's message and hint, without these secrets. The store bounds its length. */
export function reasonText(error: unknown, secrets: Iterable<string | undefined> = []): string {
  const text = error instanceof Error ? error.message : String(error)
  // The message may end with the words of a program.
  const sentence = /[.!?…]$/.test(text) ? text : `${text}.`
  const said = SandboxError.is(error) && error.hint ? `${sentence} ${error.hint}` : text
  return redacted(said, secrets)
}

/** Replaces values that a caller gave us to keep secret. Short values would also hide ordinary words. */
export function redacted(text: string, secrets: Iterable<string | undefined>): string {
  let clean = text
  for (const secret of secrets)
    if (secret !== undefined && secret.length >= 6) clean = clean.replaceAll(secret, '***')
  return clean
}

/** One error for a failure whose cleanup failed, too. */
export function bothFailed(error: unknown, cleanUp: unknown, left: string): SandboxError {
  const known = SandboxError.is(error)
  return new SandboxError(
    known ? error.code : 'internal',
    `${messageOf(error)} Cleaning up failed, too (${messageOf(cleanUp)}): ${left}`,
    {
      hint: known ? error.hints : undefined,
      retryable: known ? error.retryable : false,
      provider: known ? error.provider : undefined,
      details: known ? error.details : undefined,
      cause: new AggregateError([error, cleanUp]),
    },
  )
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
