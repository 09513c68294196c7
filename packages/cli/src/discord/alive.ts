import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Alive } from '@sandkasten/discord'

/** The time at which the bot was last connected, in one small file. */
export function aliveIn(folder: string): Alive {
  const file = path.join(folder, 'alive')
  return {
    async read() {
      try {
        return Number(await readFile(file, 'utf8')) || undefined
      } catch {
        return undefined
      }
    },
    async write(time) {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      const fresh = `${file}.new`
      await writeFile(fresh, String(time), { mode: 0o600 })
      // A kill must not leave an empty file: the next start would read no missed messages.
      await rename(fresh, file)
    },
  }
}
