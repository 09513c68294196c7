import { readdir, rmdir, unlink } from 'node:fs/promises'
import path from 'node:path'
import { errnoOf, guarded } from './errors.ts'

/**
 * Removes the root of a provider that has neither sandboxes nor snapshots; otherwise keeps it. Every removal
 * fails if the folder is not empty, so a concurrent create loses no file. It may fail with `file_not_found`, and
 * succeeds with a new provider.
 */
export async function removeEmptyRoot(root: string): Promise<void> {
  await guarded(`The empty folder ${root} could not be removed`, async () => {
    for (const name of ['snapshots', 'sandboxes', 'names'])
      if (!(await removeIfEmpty(path.join(root, name)))) return
    // Links of live processes are safe to remove: a lock stays valid without the link that it was made from.
    for (const name of await readdir(root).catch(missing([])))
      if (/^lock\.[a-z2-7]{8}$/.test(name)) await unlink(path.join(root, name)).catch(missing(undefined))
    await removeIfEmpty(root)
  })
}

async function removeIfEmpty(folder: string): Promise<boolean> {
  try {
    await rmdir(folder)
    return true
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return true
    if (errnoOf(error) === 'ENOTEMPTY' || errnoOf(error) === 'EEXIST') return false
    throw error
  }
}

function missing<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (errnoOf(error) !== 'ENOENT') throw error
    return value
  }
}
