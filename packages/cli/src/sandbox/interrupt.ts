import { constants } from 'node:os'
import { say } from '../errors.ts'
import { surviveOutputFailures } from '../output.ts'
import { endings } from '../steer.ts'

/** The user ended the command, which has cleaned up and said so. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  readonly exitCode: number

  constructor(signal: NodeJS.Signals) {
    super(`Interrupted by ${signal}.`)
    this.exitCode = 128 + constants.signals[signal]
  }
}

export interface InterruptTexts {
  /** Said at the first Ctrl-C. Default: nothing. */
  readonly first?: string
  /** Said when the work has cleaned up after it. */
  readonly cleaned?: string
  /** Said at the second Ctrl-C, which leaves at once: what stays. */
  readonly stays?: () => string
}

/** Work that the first Ctrl-C cancels. It then throws `Interrupted`. The second Ctrl-C ends this process at once. */
export async function interruptible<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { first, cleaned, stays }: InterruptTexts = {},
): Promise<T> {
  const leaving = new AbortController()
  let left: NodeJS.Signals | undefined
  // A closed terminal or reader must not prevent the cleanup.
  const restore = cleaned === undefined ? undefined : surviveOutputFailures()
  const leave = (signal: NodeJS.Signals) => {
    if (left !== undefined) {
      if (stays) say(`\nsandkasten: ${stays()}`)
      process.exit(128 + constants.signals[signal])
    }
    left = signal
    if (first !== undefined) say(`\nsandkasten: ${first}`)
    leaving.abort()
  }
  for (const signal of endings) process.on(signal, leave)
  try {
    return await work(leaving.signal)
  } catch (error) {
    if (left === undefined || !isAbort(error)) throw error
    if (cleaned !== undefined) say(`sandkasten: ${cleaned}`)
    throw new Interrupted(left)
  } finally {
    for (const signal of endings) process.off(signal, leave)
    // A write that was made above may still fail, and the exit code must stay that of the signal.
    if (left === undefined) restore?.()
  }
}

function isAbort(error: unknown): boolean {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown }
  return code === 'aborted' || name === 'AbortError'
}
