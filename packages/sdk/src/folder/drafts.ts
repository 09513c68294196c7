import { existsSync, mkdirSync, renameSync } from 'node:fs'
import path from 'node:path'
import { randomId } from '../shared/ids.ts'
import { errnoOf } from './errors.ts'
import { createRecord, identityOf, type SandboxRecord } from './record.ts'
import { removeFolder } from './remove.ts'

/** Not while the last one, or its first command, is being waited for. */
const restMs = 25

export interface Draft {
  readonly sandboxId: string
  readonly folder: string
}

/**
 * Folders of sandboxes that are being made. A folder in its place always has its record: it is made under another name, which says for whom and by whom,
 * and renamed when it is whole. What a process leaves that was killed, `sweep` knows by that name.
 */
export class Drafts {
  readonly #place: () => string
  readonly #furnish: (folder: string) => void
  #ready: Draft | undefined
  #timer: NodeJS.Timeout | undefined

  /** `furnish`: makes what is in every new one. */
  constructor(place: () => string, furnish: (folder: string) => void) {
    this.#place = place
    this.#furnish = furnish
  }

  /** Makes one, or finds it made already. */
  async make(): Promise<Draft> {
    const ready = this.#ready
    this.#ready = undefined
    return ready && existsSync(ready.folder) ? ready : this.#make()
  }

  /** Puts it in its place, with its record. */
  async appear(draft: Draft, folder: string, record: SandboxRecord): Promise<void> {
    try {
      createRecord(draft.folder, record)
      renameSync(draft.folder, folder)
    } catch (error) {
      await removeFolder(draft.folder).catch(() => {})
      throw error
    }
  }

  /** Makes the next one while nobody waits, and furnishes it further. Where that fails, nothing is said: whoever creates the next sandbox is told. */
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
