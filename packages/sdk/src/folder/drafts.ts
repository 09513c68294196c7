import { existsSync, mkdirSync, renameSync } from 'node:fs'
import path from 'node:path'
import { randomId } from '../shared/ids.ts'
import { errnoOf } from './errors.ts'
import { createRecord, identityOf, type SandboxRecord } from './record.ts'
import { removeFolder } from './remove.ts'

/** The delay after a create, so that preparing does not slow that create or its first command. */
const restMs = 25

export interface Draft {
  readonly sandboxId: string
  readonly folder: string
}

/**
 * Folders of sandboxes that are being created. A draft has a temporary name with the id of the sandbox and the identity
 * of its creator, and is renamed when it is complete, so a folder with its final name always has a record. By the
 * temporary name, `sweep` recognizes drafts whose creator was killed.
 */
export class Drafts {
  readonly #place: () => string
  readonly #furnish: (folder: string) => void
  #ready: Draft | undefined
  #timer: NodeJS.Timeout | undefined

  /** `furnish` creates what every new folder contains. */
  constructor(place: () => string, furnish: (folder: string) => void) {
    this.#place = place
    this.#furnish = furnish
  }

  /** Returns the prepared draft, or creates one. */
  async make(): Promise<Draft> {
    const ready = this.#ready
    this.#ready = undefined
    return ready && existsSync(ready.folder) ? ready : this.#make()
  }

  /** Writes the record and renames the draft to its final name. */
  async appear(draft: Draft, folder: string, record: SandboxRecord): Promise<void> {
    try {
      createRecord(draft.folder, record)
      renameSync(draft.folder, folder)
    } catch (error) {
      await removeFolder(draft.folder).catch(() => {})
      throw error
    }
  }

  /** Creates the next draft in the background. Failures are ignored here: the next create reports them. */
  prepare(furnish: (folder: string) => void): void {
    this.#timer ??= setTimeout(() => {
      const timer = this.#timer
      void this.#prepare(furnish, () => this.#timer === timer)
        .catch(() => {})
        .finally(() => {
          if (this.#timer === timer) this.#timer = undefined
        })
    }, restMs).unref()
  }

  async #prepare(furnish: (folder: string) => void, wanted: () => boolean): Promise<void> {
    if (this.#ready) return
    const draft = await this.#make()
    try {
      furnish(draft.folder)
      if (wanted()) this.#ready = draft
    } finally {
      if (this.#ready !== draft) await removeFolder(draft.folder)
    }
  }

  async clear(): Promise<void> {
    const ready = this.#ready
    this.#ready = undefined
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (ready) await removeFolder(ready.folder)
  }

  async #make(): Promise<Draft> {
    const { pid, started = '' } = await identityOf(process.pid)
    const sandboxId = randomId()
    const folder = path.join(this.#place(), `.${sandboxId}.${pid}-${started}`)
    try {
      mkdirSync(folder, { mode: 0o700 })
      this.#furnish(folder)
      return { sandboxId, folder }
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') await removeFolder(folder).catch(() => {})
      throw error
    }
  }
}
