import { chmod, mkdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'
import type { DatabaseLocation } from '@sandkasten/database'
import { SandboxError } from '@sandkasten/sdk'

type Environment = Readonly<Record<string, string | undefined>>

/**
 * The folder of threads: `threads` in `$SANDKASTEN_HOME`, or in the folder that the registry uses by default. It is
 * created. It has the database and attachments that were not handed over yet.
 */
export async function threadsFolder(env: Environment = process.env): Promise<string> {
  const usual = process.getuid?.() === 0 ? '/var/lib/sandkasten' : path.join(homedir(), '.sandkasten')
  const folder = path.resolve(env.SANDKASTEN_HOME || usual, 'threads')
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    // An existing folder keeps the mode that it was created with.
    await chmod(folder, 0o700)
  } catch (cause) {
    throw new SandboxError('permission_denied', `Threads cannot use their folder ${folder}.`, {
      cause,
      hint: 'Run as the owner of the folder, or set SANDKASTEN_HOME to another one.',
    })
  }
  return folder
}

/** The Postgres database of `SANDKASTEN_REGISTRY_URL`, or an SQLite file in the folder of threads. */
export function defaultLocation(folder: string, env: Environment = process.env): DatabaseLocation {
  if (env.SANDKASTEN_REGISTRY_URL) return { url: env.SANDKASTEN_REGISTRY_URL }
  return { file: path.join(folder, 'threads.db') }
}
