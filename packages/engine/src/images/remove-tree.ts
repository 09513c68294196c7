import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { ImagePlaces } from './places.ts'

/**
 * Removes a folder with `rm`, which follows no links and does not block this process. Retries if a program that was
 * just killed has added a file.
 */
export async function removeTree(path: string, { rights, runner }: ImagePlaces): Promise<void> {
  const rm = ['/bin/rm', '-rf', '--one-file-system', '--', path] as const
  const [program, ...args] = rights ? rights.asSandboxes(await runner(), ...rm) : rm
  const remove = () => promisify(execFile)(program, args)
  for (const pauseMs of [10, 50, 250]) {
    const done = await remove().then(
      () => true,
      () => false,
    )
    if (done) return
    await sleep(pauseMs)
  }
  await remove()
}
