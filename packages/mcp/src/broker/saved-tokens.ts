import { randomBytes } from 'node:crypto'
import { open, readFile, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'

/** Tokens that agents of the same user read: one file with mode 0600 for each name by which a sandbox is asked for. */
export class SavedTokens {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  fileOf(sandbox: string): string {
    return path.join(this.#folder, `${encodeURIComponent(sandbox)}.token`)
  }

  async save(sandbox: string, token: string): Promise<string> {
    const file = this.fileOf(sandbox)
    const draft = `${file}.${randomBytes(6).toString('hex')}`
    const handle = await open(draft, 'wx', 0o600)
    try {
      await handle.writeFile(`${token}\n`)
    } finally {
      await handle.close()
    }
    await rename(draft, file)
    return file
  }

  async read(sandbox: string): Promise<string | undefined> {
    return readFile(this.fileOf(sandbox), 'utf8').then(
      (text) => text.trim(),
      (error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return undefined
        throw error
      },
    )
  }

  async remove(sandbox: string): Promise<void> {
    await rm(this.fileOf(sandbox), { force: true })
  }
}

/** Reads a token from a file. Refuses a file that other users may read. */
export async function readTokenFile(file: string): Promise<string> {
  const handle = await open(file, 'r').catch((cause: NodeJS.ErrnoException) => {
    const why = cause.code === 'ENOENT' ? 'does not exist' : 'cannot be read'
    throw new SandboxError('unauthenticated', `The token file ${file} ${why}.`, {
      cause,
      hint: 'Make a token with sandkasten mcp token NAME, and write it into this file.',
    })
  })
  try {
    const { mode } = await handle.stat()
    if (process.platform !== 'win32' && (mode & 0o077) !== 0)
      throw new SandboxError('forbidden', `Others may read the token file ${file}.`, {
        hint: `Make it private: chmod 600 ${file}`,
      })
    return (await handle.readFile('utf8')).trim()
  } finally {
    await handle.close()
  }
}
