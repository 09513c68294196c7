import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import { errnoOf, translate } from '@sandkasten/sdk/internal'

const run = promisify(execFile)

/** A template that has not been used for this long is removed; making it again takes milliseconds. */
const UNUSED_MS = 60 * 60 * 1000
/** Callers choose sizes, and each size has a template. */
const MAX_TEMPLATES = 32
/** Longer than any start takes: by then every start has copied its template. */
const IN_USE_MS = 60 * 1000

/**
 * A disk with a limit is a sparse file with a file system of that size (`runner/src/shim/limited.rs` mounts it).
 * Making one takes as long as starting a sandbox, so an empty template is made once for each size and the shim copies
 * it.
 */
export async function diskTemplateFor(bytes: number, imagesFolder: string): Promise<string> {
  const template = join(imagesFolder, `disk-${bytes}.ext4`)
  if (existsSync(template)) {
    const now = new Date()
    utimesSync(template, now, now)
  } else {
    await whole(template, (draft) => format(draft, bytes))
    collectDiskTemplates(imagesFolder)
  }
  return template
}

/** Removes templates that were not used for a while, and drafts of killed processes. Returns their names. */
export function collectDiskTemplates(imagesFolder: string, now = Date.now()): string[] {
  // A new engine has no images yet.
  if (!existsSync(imagesFolder)) return []
  const found = readdirSync(imagesFolder)
    .filter((name) => /^disk-\d+\.ext4(\.[0-9a-f]{12})?$/.test(name))
    .map((name) => ({
      name,
      usedMs: statSync(join(imagesFolder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0,
    }))
    .toSorted((one, other) => other.usedMs - one.usedMs)
  const gone = found.filter(
    ({ usedMs }, index) => now - usedMs > (index < MAX_TEMPLATES ? UNUSED_MS : IN_USE_MS),
  )
  for (const { name } of gone) rmSync(join(imagesFolder, name), { force: true })
  return gone.map(({ name }) => name)
}

/**
 * No journal: after a power failure the disk of an ordinary sandbox is incomplete too. No reserve: it has no root
 * user.
 */
async function format(file: string, bytes: number): Promise<void> {
  writeFileSync(file, '')
  truncateSync(file, bytes)
  const options = [
    '-q',
    '-F',
    '-m',
    '0',
    '-O',
    '^has_journal,^resize_inode',
    '-E',
    'lazy_itable_init=1,nodiscard',
  ]
  try {
    await run('mkfs.ext4', [...options, file], { env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' } })
  } catch (cause) {
    if (errnoOf(cause) !== 'ENOENT' && isFull(dirname(file))) throw noRoom(cause)
    throw new SandboxError('unavailable', 'cannot create the file system of a disk with a limit', {
      cause,
      hint: 'Run: apt-get install e2fsprogs; or omit the disk limit.',
    })
  }
}

/** Checked while the draft exists, because mkfs reports only that it failed. */
function isFull(folder: string): boolean {
  const { bavail, files, ffree } = statfsSync(folder)
  return bavail === 0 || (files > 0 && ffree === 0)
}

function noRoom(cause: unknown): SandboxError {
  return translate(
    Object.assign(new Error('ENOSPC', { cause }), { code: 'ENOSPC' }),
    'cannot create the disk',
  )
}

/** Other processes see the complete file or none. If several make the same template, any result is fine. */
async function whole(file: string, make: (draft: string) => Promise<unknown>): Promise<void> {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  try {
    await make(draft)
    chmodSync(draft, 0o600)
    renameSync(draft, file)
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
}
