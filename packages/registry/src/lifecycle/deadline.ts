import { SandboxError } from '@sandkasten/sdk'
import { abortedError } from '@sandkasten/sdk/provider'

/** Runs a caller's whole operation: `work` gets a signal that fires with the caller's, and after `timeoutMs`. */
export async function withDeadline<T>(
  { signal, timeoutMs }: { signal?: AbortSignal; timeoutMs?: number },
  what: string,
  work: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  if (timeoutMs === undefined) return reasoned(work(signal), signal, what)
  if (!(Number.isFinite(timeoutMs) && timeoutMs > 0))
    throw new SandboxError('invalid_argument', '`timeoutMs` must be a positive number of milliseconds.')
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(tooLong(what, timeoutMs)), Math.min(timeoutMs, 2 ** 31 - 1))
  const both = signal ? AbortSignal.any([signal, late.signal]) : late.signal
  try {
    return await reasoned(work(both), both, what)
  } finally {
    clearTimeout(timer)
  }
}

export interface RequestOptions {
  readonly ms: number
  readonly signal: AbortSignal | undefined
  /** For errors: `Starting “demo” at daytona`. */
  readonly what: string
  /** How long a cancelled request may take to undo itself. Default: not at all. */
  readonly graceMs?: number
}

/**
 * One request to a provider, with a time limit. A provider that ignores its signal is left behind after `graceMs`; what
 * it returns later goes to `late`.
 */
export async function request<T>(
  { ms, signal, what, graceMs = 0 }: RequestOptions,
  work: (signal: AbortSignal) => Promise<T>,
  late?: (value: T) => Promise<unknown>,
): Promise<T> {
  const controller = new AbortController()
  const timer = setTimeout(() => controller.abort(tooLong(what, ms)), Math.min(ms, 2 ** 31 - 1))
  const cancel = () => controller.abort(signal!.reason)
  let grace: NodeJS.Timeout | undefined
  if (signal?.aborted) cancel()
  else signal?.addEventListener('abort', cancel)
  try {
    controller.signal.throwIfAborted()
    const graceOver = new Promise<'left behind'>((resolve) => {
      controller.signal.addEventListener('abort', () => {
        grace = setTimeout(() => resolve('left behind'), graceMs)
      })
    })
    const pending = work(controller.signal)
    const settled = pending.then(
      () => 'settled' as const,
      () => 'settled' as const,
    )
    if ((await Promise.race([settled, graceOver])) === 'settled') return await pending
    pending.then(late).catch(() => {})
    throw controller.signal.reason
  } catch (error) {
    throw reasonOf(error, controller.signal, what)
  } finally {
    clearTimeout(timer)
    clearTimeout(grace)
    signal?.removeEventListener('abort', cancel)
  }
}

async function reasoned<T>(work: Promise<T>, signal: AbortSignal | undefined, what: string): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw signal ? reasonOf(error, signal, what) : error
  }
}

/** Why a cancelled call ended: our time limit, a lost lease, or the caller's signal. Other errors stay as they are. */
function reasonOf(error: unknown, signal: AbortSignal, what: string): unknown {
  if (!signal.aborted || !(error === signal.reason || SandboxError.is(error, 'aborted'))) return error
  if (SandboxError.is(signal.reason)) return signal.reason
  return SandboxError.is(error) ? error : abortedError(signal, what)
}

function tooLong(what: string, ms: number): SandboxError {
  return new SandboxError('timeout', `${what} took longer than ${ms} ms.`, {
    hint: 'Raise the time limit, or see whether the provider has a problem.',
  })
}
