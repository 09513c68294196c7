import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import { errnoOf, guarded, translate } from './errors.ts'
import { sweepLocks, withLock } from './lock.ts'
import { replaceFile } from './record.ts'

/** Names of live sandboxes: one file per name, called by the name's hash, that contains the sandbox's id. */
export class Names {
  readonly #folder: string

  constructor(root: string) {
    this.#folder = path.join(root, 'names')
  }

  async find(name: string): Promise<string | undefined> {
    return readFile(this.#file(name), 'utf8').catch((error) => {
      if (errnoOf(error) === 'ENOENT') return undefined
      throw translate(error, 'The names of sandboxes cannot be read')
    })
  }

  /** False when an existing sandbox has the name. */
  async claim(name: string, sandboxId: string, exists: (id: string) => Promise<boolean>): Promise<boolean> {
    await guarded('The names of sandboxes cannot be written', () =>
      mkdir(this.#folder, { recursive: true, mode: 0o700 }),
    )
    return withLock(path.join(this.#folder, 'lock'), async () => {
      const holder = await this.find(name)
      if (holder !== undefined && (await exists(holder))) return false
      await replaceFile(this.#file(name), sandboxId, 'The sandbox’s name could not be written')
      return true
    })
  }

  async release(name: string, sandboxId: string): Promise<void> {
    if ((await this.find(name)) !== sandboxId) return
    await withLock(path.join(this.#folder, 'lock'), async () => {
      if ((await this.find(name)) === sandboxId) await rm(this.#file(name), { force: true })
    })
  }

  /** Removes the names of sandboxes that no longer exist. */
  async sweep(exists: (id: string) => Promise<boolean>): Promise<void> {
    const files = await readdir(this.#folder).catch(() => undefined)
    if (!files) return
    await sweepLocks(this.#folder)
    for (const name of files.filter((name) => /^[0-9a-f]{64}$/.test(name))) {
      const file = path.join(this.#folder, name)
      await withLock(path.join(this.#folder, 'lock'), async () => {
        const holder = await readFile(file, 'utf8').catch(() => undefined)
        if (holder !== undefined && !(await exists(holder))) await rm(file, { force: true })
      })
    }
  }

  #file(name: string): string {
    return path.join(this.#folder, createHash('sha256').update(name).digest('hex'))
  }
}
