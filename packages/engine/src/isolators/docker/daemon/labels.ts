import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The labels of everything that we make in a daemon. Without both of the first two, an object is not ours and stays
 * untouched.
 */
export const LABEL = {
  /** The owner: a random name of one engine's root. */
  owner: 'dev.sandkasten.engine',
  /** Its purpose. */
  use: 'dev.sandkasten.use',
  sandbox: 'dev.sandkasten.sandbox',
  /** Its folder on the engine's machine. */
  folder: 'dev.sandkasten.folder',
  /** How its runner is reached. */
  reach: 'dev.sandkasten.reach',
  snapshot: 'dev.sandkasten.snapshot',
} as const

export type Use = 'sandbox' | 'probe' | 'host-image' | 'snapshot'

export type Labels = Readonly<Record<string, string>>

/** The labels for a new object. */
export function labelsFor(owner: string, use: Use, more: Labels = {}): Labels {
  return { [LABEL.owner]: owner, [LABEL.use]: use, ...more }
}

export function isOurs(labels: Labels | null | undefined, owner: string, use: Use): boolean {
  return labels?.[LABEL.owner] === owner && labels[LABEL.use] === use
}

/** The filter of the daemon's lists. */
export function filterFor(owner: string, use: Use, more: Labels = {}): { label: string[] } {
  return { label: Object.entries(labelsFor(owner, use, more)).map(([name, value]) => `${name}=${value}`) }
}

/** The name of the root folder's engine, created once. If two processes race, both use the winner's name. */
export function ownerOf(root: string): string {
  const file = join(root, 'docker-owner')
  const known = readOwner(file)
  if (known) return known
  mkdirSync(root, { recursive: true, mode: 0o700 })
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  writeFileSync(draft, randomBytes(8).toString('hex'), { mode: 0o600 })
  try {
    linkSync(draft, file)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause
  } finally {
    rmSync(draft, { force: true })
  }
  return readOwner(file)!
}

function readOwner(file: string): string | undefined {
  try {
    const text = readFileSync(file, 'utf8')
    return /^[0-9a-f]{16}$/.test(text) ? text : undefined
  } catch {
    return undefined
  }
}
