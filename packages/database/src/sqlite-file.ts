import { statfsSync, statSync } from 'node:fs'
import { chmod, open, stat } from 'node:fs/promises'
import path from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { SandboxError } from '@sandkasten/sdk'

/** Larger databases are not rewritten, because that would take minutes. */
const mostRewritten = 2 * 1024 ** 3

/** Makes the database's files readable for their owner only, including files of older versions. */
export async function protectFiles(file: string): Promise<void> {
  // SQLite gives its other files the mode of this one.
  await (await open(file, 'a', 0o600)).close()
  for (const name of [file, `${file}-wal`, `${file}-shm`]) {
    const found = await stat(name).catch(() => undefined)
    if (!found || (found.mode & 0o077) === 0) continue
    await chmod(name, 0o600).catch((cause) => {
      throw new SandboxError(
        'permission_denied',
        `The database file ${name} can be read by other accounts.`,
        {
          cause,
          hint: 'Run as the owner of the file, or choose another file for the database.',
        },
      )
    })
  }
}

/**
 * Lets the database return space to the disk. A new database is created so. An older one is rewritten once, if it is
 * not too large and the disk has room for the copy. Otherwise its space is only reused.
 */
export function allowShrinking(database: DatabaseSync, file: string): void {
  const pragma = (name: string) =>
    Number(Object.values(database.prepare(`pragma ${name}`).get() ?? {})[0] ?? 0)
  const incremental = 2
  if (pragma('auto_vacuum') === incremental) return
  database.exec('pragma auto_vacuum = incremental')
  if (pragma('page_count') === 0) return
  const { bavail, bsize } = statfsSync(path.dirname(file))
  const { size } = statSync(file)
  if (size <= mostRewritten && bavail * bsize > 3 * size) database.exec('vacuum')
}
