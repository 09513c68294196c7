import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

/**
 * By `rm`: it follows no link, minds no depth, and blocks nobody. Again where something was put in meanwhile: a program that was killed a moment ago
 * may have been in the middle of it.
 */
export async function removeTree(path: string): Promise<void> {
  const remove = () => promisify(execFile)('/bin/rm', ['-rf', '--one-file-system', '--', path])
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
