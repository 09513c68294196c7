import { lstat, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { hashLocal } from '../host/hash.ts'
import { parentsOf } from '../paths.ts'
import type { LocalEntry } from '../plan.ts'

export type LocalState = LocalEntry | { type: 'missing' | 'other' }

/** The local state of a path. Follows no link: a name from the sandbox must not read elsewhere. */
export async function localState(projectDir: string, path: string): Promise<LocalState> {
  for (const folder of parentsOf(path)) {
    const facts = await look(join(projectDir, folder))
    if (!facts) return { type: 'missing' }
    if (!facts.isDirectory()) return { type: 'other' }
  }
  const source = join(projectDir, path)
  const facts = await look(source)
  if (!facts) return { type: 'missing' }
  if (facts.isSymbolicLink()) return { type: 'symlink', target: await readlink(source) }
  const sha256 = facts.isFile() ? await hashLocal({ source, size: facts.size }) : undefined
  return sha256 === undefined ? { type: 'other' } : { type: 'file', mode: facts.mode & 0o777, sha256 }
}

async function look(path: string) {
  try {
    return await lstat(path)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}
