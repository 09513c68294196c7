import type { Hold } from '@sandkasten/registry'
import { besideDueWork } from './due-work.ts'
import { interruptible } from './interrupt.ts'
import { openHere } from './open.ts'
import { withSteps } from './steps.ts'

export interface Holding {
  /** Shown to others who want to stop the sandbox. Never an argument of a command, which may be a secret. */
  readonly purpose: string
  readonly thread?: string
}

/** Starts the sandbox if needed, and holds it during the work: others do not stop it without --force. */
export async function holding<T>(
  name: string,
  { purpose, thread }: Holding,
  work: (hold: Hold) => Promise<T>,
): Promise<T> {
  await using opened = await openHere()
  await using hold = await interruptible((signal) =>
    withSteps(
      (onProgress) => opened.sandboxes.hold(name, { purpose, threadId: thread, signal, onProgress }),
      // stderr belongs to the command.
      { quiet: true },
    ),
  )
  // Only now, so that due work does not stop this sandbox first.
  return await besideDueWork(opened.registry, () => work(hold))
}

/** A path as the user writes it: relative to the project's folder, if the sandbox has one. */
export function inProject(
  { record: { directory } }: Pick<Hold, 'record'>,
  path: string | undefined,
): string | undefined {
  if (directory === undefined || path?.startsWith('/')) return path
  return path === undefined ? directory : `${directory}/${path}`
}
