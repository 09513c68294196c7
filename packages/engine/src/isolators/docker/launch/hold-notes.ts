import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { identityOf, isAlive, type ProcessIdentity, replaceFile } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import { namesIn } from '../../../read-files.ts'
import type { SandboxPlace } from '../../isolator.ts'

/**
 * Which processes hold a sandbox, one file each. The daemon knows only that the container is paused, not for how long
 * or for which process. The next `attach` releases the holds of killed processes.
 */
export async function noteHold(place: SandboxPlace): Promise<{ remove(): boolean }> {
  const file = join(folderOf(place), `${randomId()}.json`)
  mkdirSync(folderOf(place), { recursive: true, mode: 0o700 })
  await replaceFile(file, JSON.stringify(await identityOf(process.pid)))
  return {
    /** False if the hold no longer counts because the sandbox was frozen for good. */
    remove() {
      const counted = read(file) !== undefined
      rmSync(file, { force: true })
      return counted
    },
  }
}

/** `lost`: the sandbox was held, and no holder is alive. */
export async function holdsOf(place: SandboxPlace): Promise<'none' | 'held' | 'lost'> {
  const holders = namesIn(folderOf(place))
    .filter((name) => name.endsWith('.json'))
    .map((name) => read(join(folderOf(place), name)))
  if (holders.length === 0) return 'none'
  const alive = await Promise.all(holders.map((holder) => isAlive(holder)))
  return alive.includes(true) ? 'held' : 'lost'
}

export function forgetHolds(place: SandboxPlace): void {
  rmSync(folderOf(place), { recursive: true, force: true })
}

const folderOf = ({ folder }: SandboxPlace) => join(folder, 'held')

function read(file: string): ProcessIdentity | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ProcessIdentity
  } catch {
    return undefined
  }
}
