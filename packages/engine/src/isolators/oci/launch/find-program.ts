import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'

/** Returns an absolute path, so that no later lookup uses another PATH. */
export function findProgram(name: string): string {
  if (name.startsWith('/')) return name
  for (const folder of [
    ...(process.env.PATH ?? '').split(delimiter),
    '/usr/sbin',
    '/usr/bin',
    '/sbin',
    '/bin',
  ]) {
    if (!folder.startsWith('/')) continue
    try {
      accessSync(join(folder, name), constants.X_OK)
      return join(folder, name)
    } catch {
      // Try the next folder.
    }
  }
  throw new SandboxError('unavailable', `${name} is not installed`, {
    hint: `Run: apt-get install ${name === 'pasta' ? 'passt' : name}`,
  })
}

export function hasProgram(name: string): boolean {
  try {
    findProgram(name)
    return true
  } catch {
    return false
  }
}
