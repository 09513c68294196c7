import { chmod, readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { errnoOf } from './errors.ts'

/** Removes a folder, also when a program left subfolders without permissions. */
export async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, maxRetries: 3 })
  } catch (error) {
    if (errnoOf(error) !== 'EACCES' && errnoOf(error) !== 'EPERM') throw error
    await openUp(folder)
    await rm(folder, { recursive: true, maxRetries: 3 })
  }
}

async function openUp(folder: string): Promise<void> {
  await chmod(folder, 0o700)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) await openUp(path.join(folder, entry.name))
  }
}
