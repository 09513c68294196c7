import { mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { guarded, identityOf, isAlive, type ProcessIdentity } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import { namesIn, readWhole, tidy, writeWhole } from './whole-file.ts'

/**
 * Who is working with which layers right now: a file each, for the moment between taking a layer and writing down in a record that it is used.
 * A hold ends with its process, however that ends.
 */
export class Holds {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Returns how to let go. */
  async take(ids: readonly string[]): Promise<() => void> {
    const what = 'That layers are in use could not be written down'
    await guarded(what, async () => {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    })
    const file = path.join(this.#folder, `${randomId()}.json`)
    const hold: Hold = { by: await identityOf(process.pid), ids }
    await writeWhole(file, hold, { durable: false, what })
    return () => rmSync(file, { force: true })
  }

  /** What is held by the living; what the dead held is cleared away. */
  async held(): Promise<Set<string>> {
    const ids = new Set<string>()
    await tidy(this.#folder)
    for (const name of namesIn(this.#folder).filter((name) => name.endsWith('.json'))) {
      const file = path.join(this.#folder, name)
      // Undefined when it has been let go meanwhile.
      const hold = readWhole<Hold>(file)
      if (hold && (await isAlive(hold.by))) for (const id of hold.ids) ids.add(id)
      else rmSync(file, { force: true })
    }
    return ids
  }
}

interface Hold {
  readonly by: ProcessIdentity
  readonly ids: readonly string[]
}
