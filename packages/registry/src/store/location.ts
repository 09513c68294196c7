import { chmod, mkdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'
import type { DatabaseLocation } from '@sandkasten/database'
import { SandboxError } from '@sandkasten/sdk'

type Environment = Readonly<Record<string, string | undefined>>

/**
 * The registry's own folder: `registry` in `$SANDKASTEN_HOME`, or in the folder that the daemon and the engine use by
 * default: `/var/lib/sandkasten` for root, otherwise `~/.sandkasten`.
 */
export function registryFolder(env: Environment = process.env): string {
  const usual = process.getuid?.() === 0 ? '/var/lib/sandkasten' : path.join(homedir(), '.sandkasten')
  return path.resolve(env.SANDKASTEN_HOME || usual, 'registry')
}

/** The Postgres database of `SANDKASTEN_REGISTRY_URL`, or an SQLite file in the registry's folder, which is created. */
export async function defaultLocation(env: Environment = process.env): Promise<DatabaseLocation> {
  if (env.SANDKASTEN_REGISTRY_URL) return { url: env.SANDKASTEN_REGISTRY_URL }
  const folder = registryFolder(env)
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    // An existing folder keeps the mode that it was created with.
    await chmod(folder, 0o700)
  } catch (cause) {
    throw new SandboxError('permission_denied', `The registry cannot use its folder ${folder}.`, {
      cause,
      hint: 'Run as the owner of the folder, or set SANDKASTEN_HOME to another one.',
    })
  }
  return { file: path.join(folder, 'registry.db') }
}
