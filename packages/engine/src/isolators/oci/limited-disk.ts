import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  renameSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import { errnoOf, translate } from '@sandkasten/sdk/folder'

const run = promisify(execFile)

/**
 * A disk with a limit is a file with a file system of that size in it, and holes where nothing was written (`runner/src/shim/limited.rs` mounts it).
 * Making one takes as long as a sandbox does, so it is made once for each size, and copied.
 */
export async function prepareLimitedDisk(file: string, bytes: number, imagesFolder: string): Promise<void> {
  if (existsSync(file)) return
  const template = join(imagesFolder, `disk-${bytes}.ext4`)
  if (!existsSync(template)) await whole(template, (draft) => format(draft, bytes))
  await whole(file, async (draft) => {
    const copy = ['--sparse=always', '--reflink=auto', '--', template, draft]
    await run('/bin/cp', copy).catch((cause) => {
      throw isFull(dirname(file))
        ? noRoom(cause)
        : new SandboxError('internal', 'a disk with a limit could not be copied', { cause })
    })
  })
}

/** No journal: after a power failure the disk of an ordinary sandbox is not whole either. No reserve: there is no root in there to keep it for. */
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
    throw new SandboxError('unavailable', 'the file system of a disk with a limit could not be made', {
      cause,
      hint: 'Run: apt-get install e2fsprogs; or leave the limit of the disk out.',
    })
  }
}

/** Asked while the draft is still there: programs of others say only that they have failed. */
function isFull(folder: string): boolean {
  const { bavail, files, ffree } = statfsSync(folder)
  return bavail === 0 || (files > 0 && ffree === 0)
}

function noRoom(cause: unknown): SandboxError {
  return translate(
    Object.assign(new Error('ENOSPC', { cause }), { code: 'ENOSPC' }),
    'the disk could not be made',
  )
}

/** Others see the file whole or not at all; of several who make the same one, any is as good. */
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
