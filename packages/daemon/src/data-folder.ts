import { chmod, mkdir, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { identityOf, isAlive } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import type { Log } from './log.ts'

/** A daemon's exclusive use of its data folder, and the identity that it keeps there. */
export interface Instance {
  readonly id: string
  /** The key of this machine's command line. Only its owner can read it. */
  readCommandLineKey(): Promise<string | undefined>
  writeCommandLineKey(key: string): Promise<void>
  /** Stores the address for this machine's command line. */
  writeAddress(url: string): Promise<void>
  release(): Promise<void>
}

export async function takeDataFolder(folder: string, log: Log): Promise<Instance> {
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch((cause) => {
    throw new SandboxError('permission_denied', `The data folder ${folder} cannot be created.`, {
      cause,
      hint: 'Choose another data_dir.',
    })
  })
  await protectFolder(folder, log)
  const lock = path.join(folder, 'daemon.lock')
  await takeLock(lock, folder)
  const keyFile = path.join(folder, 'cli-key')
  return {
    id: await instanceId(folder),
    readCommandLineKey: async () => (await readFile(keyFile, 'utf8').catch(() => '')).trim() || undefined,
    writeCommandLineKey: (key) => writeWhole(keyFile, `${key}\n`),
    writeAddress: (url) => writeWhole(path.join(folder, 'address'), `${url}\n`),
    async release() {
      await rm(path.join(folder, 'address'), { force: true })
      await rm(lock, { force: true })
    },
  }
}

/** Restricts the folder to its owner, because it holds keys and the files of sessions. */
async function protectFolder(folder: string, log: Log): Promise<void> {
  const { uid, mode } = await stat(folder)
  const own = process.getuid?.()
  if (own !== undefined && uid !== own)
    throw new SandboxError(
      'permission_denied',
      `The data folder ${folder} belongs to another account (uid ${uid}).`,
      {
        hint: 'Run the daemon as that account, change the owner of the folder, or choose another data_dir.',
      },
    )
  if ((mode & 0o077) === 0) return
  if ((mode & 0o1000) !== 0)
    throw new SandboxError('permission_denied', `The data folder ${folder} is shared by all accounts.`, {
      hint: 'Choose another data_dir.',
    })
  await chmod(folder, 0o700)
  log.warn(
    { folder, mode: (mode & 0o777).toString(8) },
    'restricted the data folder, which other accounts could open',
  )
}

/**
 * The address and key that the daemon of this folder stored for the command line. The address of a daemon that was
 * killed is left out: another program may listen there by now, and would get the key.
 */
export async function readAddress(folder: string): Promise<{ url?: string; key?: string }> {
  const read = async (file: string) =>
    (await readFile(path.join(folder, file), 'utf8').catch(() => '')).trim() || undefined
  const holder = await lockHolder(path.join(folder, 'daemon.lock'))
  const runs = holder !== undefined && (await isAlive(holder))
  return { url: runs ? await read('address') : undefined, key: await read('cli-key') }
}

async function instanceId(folder: string): Promise<string> {
  const file = path.join(folder, 'instance')
  const known = (await readFile(file, 'utf8').catch(() => '')).trim()
  if (/^[a-z2-7]{16}$/.test(known)) return known
  const id = randomId()
  await writeWhole(file, `${id}\n`)
  return id
}

/** Takes the lock, a file with the owner's pid and start time. A lock whose owner has died is taken over. */
async function takeLock(file: string, folder: string): Promise<void> {
  for (let attempt = 0; attempt < 3; attempt += 1) {
    try {
      const handle = await open(file, 'wx', 0o600)
      await handle.writeFile(JSON.stringify(await identityOf(process.pid)))
      await handle.close()
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const holder = await lockHolder(file)
    if (holder !== undefined && (await isAlive(holder)))
      throw new SandboxError('conflict', `Another daemon uses ${folder} (process ${holder.pid}).`, {
        hint: 'Stop it, or give this one another data_dir.',
        details: { pid: holder.pid },
      })
    await rm(file, { force: true })
  }
  throw new SandboxError('conflict', `The data folder ${folder} cannot be locked.`, { hint: 'Try again.' })
}

async function lockHolder(file: string): Promise<Awaited<ReturnType<typeof identityOf>> | undefined> {
  return readFile(file, 'utf8')
    .then(JSON.parse)
    .catch(() => undefined)
}

async function writeWhole(file: string, content: string): Promise<void> {
  const part = `${file}.${randomId(8)}`
  await writeFile(part, content, { mode: 0o600 })
  await rename(part, file)
}
