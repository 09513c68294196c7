import { SandboxError } from '../../errors.ts'
import { abortedError, onAbort } from './abort.ts'

/**
 * Returns what `make` created. If the signal fired meanwhile, undoes it and rejects with `aborted`.
 * The creation itself is not cancelled: only its response tells what it created. A caller that gives up waits only
 * briefly; later results are undone in the background.
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
 * For a failed call that may have created something, because only its response was lost: removes it, with one retry.
 * If that fails too, throws the original error, which names what may be left.
 */
export async function unmade<T>(error: unknown, unmake: () => Promise<T>, left: string): Promise<T> {
  try {
    return await unmake().catch(() => unmake())
  } catch (cleanUp) {
    throw SandboxError.is(error) ? leaving(error, left, cleanUp) : error
  }
}

/**
 * The failure of a call whose cleanup failed too. `details.left` names the leftover, and the cause has both errors.
 */
export function leaving(failure: SandboxError, left: string, cleanUp: unknown): SandboxError {
  return new SandboxError(failure.code, failure.message, {
    ...failure.toJSON(),
    hint: `${failure.hint} The call may have left ${left}, which may cost money: look for it, and delete it.`,
    details: { ...failure.details, left },
    cause: new AggregateError([failure, cleanUp], `Cleanup failed; what is left: ${left}`),
  })
}

const patienceMs = 10_000
