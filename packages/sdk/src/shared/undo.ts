import { SandboxError } from '../errors.ts'
import { abortedError, onAbort } from './abort.ts'

/**
 * What was made, unless the signal has fired meanwhile: then it is unmade, and the call is cancelled. The making itself is not cancelled
 * on its way: what a cancelled request has made elsewhere is known only when it is answered. Who gave up is not held up for long; what
 * is made after that is unmade when it is known.
 */
export async function undoneOnAbort<T>(
  making: Promise<T>,
  unmake: (made: T) => Promise<unknown>,
  signal: AbortSignal | undefined,
  what: string,
): Promise<T> {
  let forget = () => {}
  let late = false
  const patience = new Promise<never>((_, reject) => {
    forget = onAbort(signal, () => {
      const timer = setTimeout(() => {
        late = true
        reject(abortedError(signal!, what))
      }, patienceMs)
      making.finally(() => clearTimeout(timer)).catch(() => {})
    })
  })
  making.then((made) => late && unmake(made).catch(() => {})).catch(() => {})
  try {
    const made = await Promise.race([making, patience])
    if (!signal?.aborted) return made
    await unmake(made)
    throw abortedError(signal, what)
  } catch (error) {
    if (signal?.aborted) throw abortedError(signal, what)
    throw error
  } finally {
    forget()
  }
}

/**
 * For a call that failed and may have made something all the same, if only its answer was lost: unmakes it, at the second try if need be.
 * Where that fails too, the call's own error is thrown, and names what may be left.
 */
export async function unmade<T>(error: unknown, unmake: () => Promise<T>, left: string): Promise<T> {
  try {
    return await unmake().catch(() => unmake())
  } catch (cleanUp) {
    throw SandboxError.is(error) ? leaving(error, left, cleanUp) : error
  }
}

/** The failure, where what it left could not be cleaned up either: `details.left` names that, and the cause has both. */
export function leaving(failure: SandboxError, left: string, cleanUp: unknown): SandboxError {
  return new SandboxError(failure.code, failure.message, {
    ...failure.toJSON(),
    hint: `${failure.hint} What was made may be left, and be paid for: look for ${left}, and delete it.`,
    details: { ...failure.details, left },
    cause: new AggregateError([failure, cleanUp], `What was made could not be taken away: ${left}`),
  })
}

const patienceMs = 10_000
