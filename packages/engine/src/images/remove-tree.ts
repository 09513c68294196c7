import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { ImagePlaces } from './places.ts'

/**
 * By `rm`: it follows no link, minds no depth, and blocks nobody. Again where something was put in meanwhile: a program that was killed a moment ago
 * may have been in the middle of it.
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
