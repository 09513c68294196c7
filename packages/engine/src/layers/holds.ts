import { mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { guarded, identityOf, isAlive, type ProcessIdentity } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import { namesIn } from '../read-files.ts'
import { readJson, removePartials, writeAtomically } from './atomic-file.ts'

/**
 * Which process works with which layers right now. A hold is a file that covers the time between taking a layer and
 * writing a record that names it. It ends with its process, also after a `kill -9`.
 */
export class Holds {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Returns a function that releases the hold. */
  async take(ids: readonly string[]): Promise<() => void> {
    const what = 'Cannot record that layers are in use'
    await guarded(what, async () => {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    })
    const file = path.join(this.#folder, `${randomId()}.json`)
    const hold: Hold = { by: await identityOf(process.pid), ids }
    await writeAtomically(file, hold, { durable: false, what })
    return () => rmSync(file, { force: true })
  }

  /** The layers that living processes hold. Removes the holds of dead processes. */
  async held(): Promise<Set<string>> {
    const ids = new Set<string>()
    await removePartials(this.#folder)
    for (const name of namesIn(this.#folder).filter((name) => name.endsWith('.json'))) {
      const file = path.join(this.#folder, name)
      // Undefined if it has been released since the folder was read.
      const hold = readJson<Hold>(file)
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
