import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { identityOf, isAlive, type ProcessIdentity, replaceFile } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import type { SandboxPlace } from '../isolator.ts'

/**
 * Who holds a sandbox still for a moment: a file each. The daemon knows only that it is paused; that a pause is somebody's moment, and whether that
 * somebody lives, is written down here. So whoever next looks for the sandbox lets go what a killed process held.
 */
export async function noteHold(place: SandboxPlace): Promise<{ remove(): boolean }> {
  const file = join(folderOf(place), `${randomId()}.json`)
  mkdirSync(folderOf(place), { recursive: true, mode: 0o700 })
  await replaceFile(file, JSON.stringify(await identityOf(process.pid)))
  return {
    /** False when it does not count any more: somebody has frozen the sandbox for good. */
    remove() {
      const counted = read(file) !== undefined
      rmSync(file, { force: true })
      return counted
    },
  }
}

/** `lost`: it was held, and nobody who held it lives. */
export async function holdsOf(place: SandboxPlace): Promise<'none' | 'held' | 'lost'> {
  const holders = namesIn(folderOf(place)).map((name) => read(join(folderOf(place), name)))
  if (holders.length === 0) return 'none'
  const alive = await Promise.all(holders.map((holder) => isAlive(holder)))
  return alive.includes(true) ? 'held' : 'lost'
}

export function forgetHolds(place: SandboxPlace): void {
  rmSync(folderOf(place), { recursive: true, force: true })
}

const folderOf = ({ folder }: SandboxPlace) => join(folder, 'held')

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => name.endsWith('.json'))
  } catch {
    return []
  }
}

function read(file: string): ProcessIdentity | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ProcessIdentity
  } catch {
    return undefined
  }
}
