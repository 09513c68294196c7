import { mkdirSync, renameSync } from 'node:fs'
import path from 'node:path'
import { randomId } from '../shared/ids.ts'
import { createRecord, identityOf, type SandboxRecord } from './record.ts'
import { removeFolder } from './remove.ts'

export interface Draft {
  readonly sandboxId: string
  readonly folder: string
}

/**
 * Folders of sandboxes during their creation. A draft's name contains its id and its creator. The folder is renamed into place
 * when it is complete, so a folder in its final place always has its record. If the creator dies, `sweep` removes the draft.
 */
export class Drafts {
  readonly #parent: () => string

  constructor(parent: () => string) {
    this.#parent = parent
  }

  async make(): Promise<Draft> {
    const { pid, started = '' } = await identityOf(process.pid)
    const sandboxId = randomId()
    const folder = path.join(this.#parent(), `.${sandboxId}.${pid}-${started}`)
    mkdirSync(folder, { mode: 0o700 })
    return { sandboxId, folder }
  }

  /** Writes the record, and moves the folder into place. */
  async appear(draft: Draft, folder: string, record: SandboxRecord): Promise<void> {
    try {
      createRecord(draft.folder, record)
      renameSync(draft.folder, folder)
    } catch (error) {
      await removeFolder(draft.folder).catch(() => {})
      throw error
    }
  }
}
