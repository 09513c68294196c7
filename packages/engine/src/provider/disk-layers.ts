import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { guarded, type SandboxRecord, writeRecord } from '@sandkasten/sdk/internal'
import type { IsolatedSandbox } from '../isolators/isolator.ts'
import type { Draft, LayerStore } from '../layers/store.ts'
import type { Trees } from '../layers/trees.ts'
import { extraOf, withExtra } from './spec.ts'

/**
 * A sandbox's disk as layers that others can be stacked on. All of it happens with the sandbox's lock held.
 *
 * Of a stopped sandbox the writable folder itself becomes the layer, and an empty one takes its place: two renames, whatever its size.
 *
 *     record: sealing X ─► upper → draft X ─► empty → upper ─► draft X → layer X ─► record: layers [X, …]
 *
 * Whoever next takes the lock finds `sealing` in the record if somebody died on the way, and goes on from what he sees (`mend`). Before the first
 * rename nothing has happened; after it, all that is left to do can be done again.
 *
 * Of a running sandbox the folder is copied while everything in it is stopped. So is a disk with a limit, which is a file system of its own.
 */
export class DiskLayers {
  readonly #store: LayerStore
  readonly #trees: Trees

  constructor(store: LayerStore, trees: Trees) {
    this.#store = store
    this.#trees = trees
  }

  /** Its stack after it was sealed is in the record that this resolves to. Nothing to seal: the same record. */
  async sealStopped(
    folder: string,
    record: SandboxRecord,
    upper: string,
    draft: Draft,
  ): Promise<SandboxRecord> {
    if (!existsSync(upper) || this.#isUnchanged(upper, extraOf(record).layers[0])) return record
    return guarded('The disk could not be sealed', async () => {
      makeEmpty(`${upper}.next`, upper)
      const noted = withExtra(record, { ...extraOf(record), sealing: draft.id })
      await writeRecord(folder, noted, { first: true }).catch((error) => {
        rmSync(`${upper}.next`, { recursive: true, force: true })
        throw error
      })
      draft.keep()
      await this.#trees.move(upper, draft.tree)
      return this.mend(noted, upper)
    })
  }

  /** Goes on where a `sealStopped` ended, wherever that was. */
  async mend(record: SandboxRecord, upper: string): Promise<SandboxRecord> {
    const { sealing, ...extra } = extraOf(record)
    if (sealing === undefined) return record
    const moved = existsSync(this.#store.draftTreeOf(sealing)) || existsSync(this.#store.treeOf(sealing))
    if (!moved) {
      rmSync(`${upper}.next`, { recursive: true, force: true })
      // The draft is empty, and no longer named by anybody: it is swept.
      return withExtra(record, extra)
    }
    if (!existsSync(upper)) {
      if (existsSync(`${upper}.next`)) renameSync(`${upper}.next`, upper)
      else makeEmpty(upper, this.#store.draftTreeOf(sealing))
    }
    this.#store.seal(sealing)
    return withExtra(record, { ...extra, layers: [sealing, ...extra.layers] })
  }

  /** Its content at one moment, as a draft's tree. A sandbox that is frozen stays so. */
  async copyRunning(isolated: IsolatedSandbox, draft: Draft): Promise<void> {
    if (isolated.upper === undefined) throw new SandboxError('internal', 'The disk cannot be found.')
    const release = await isolated.hold()
    try {
      await this.#trees.copy(isolated.upper, draft.tree)
    } finally {
      release()
    }
  }

  /** False when nothing was ever written. */
  async copyStopped(file: string, draft: Draft): Promise<boolean> {
    if (!existsSync(file)) return false
    await this.#trees.copyDisk(file, draft.tree)
    return true
  }

  /** Nothing in it, and its root folder is as the layer's below. */
  #isUnchanged(upper: string, top: string | undefined): boolean {
    if (readdirSync(upper).length > 0) return false
    if (top === undefined) return true
    const [one, other] = [lstatSync(upper), lstatSync(this.#store.treeOf(top))]
    return one.mode === other.mode && one.uid === other.uid && one.gid === other.gid
  }
}

/** An empty folder that a sandbox's root folder can be: as it was. */
function makeEmpty(folder: string, like: string): void {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(dirname(folder), { recursive: true, mode: 0o700 })
  const { mode, uid, gid } = lstatSync(like)
  mkdirSync(folder, { mode: 0o700 })
  // The shim of an ordinary account does it when it mounts the disk.
  if (process.getuid?.() === 0) chownSync(folder, uid, gid)
  chmodSync(folder, mode & 0o7777)
}
