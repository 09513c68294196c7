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
import type { IsolatedSandbox, Upper } from '../../isolators/isolator.ts'
import type { Draft, LayerStore } from '../../layers/store.ts'
import type { Trees } from '../../layers/trees.ts'
import { type EngineExtra, extraOf, withExtra } from '../spec.ts'
import type { Binding, Sandboxes } from './disks.ts'

/** A consistent copy of a sandbox's disk as layers, which are held until `done`. */
export interface CapturedDisk {
  readonly record: SandboxRecord
  readonly extra: EngineExtra
  /** Uppermost first. */
  readonly layers: readonly string[]
  done(): Promise<void>
}

/**
 * Turns the disk of a sandbox into layers that other sandboxes can use. Every change happens under the sandbox's lock.
 *
 * The writable folder of a stopped sandbox itself becomes the layer, and an empty folder replaces it. That takes two
 * renames, whatever the size:
 *
 *     record: sealing X ─► upper → draft X ─► empty → upper ─► draft X → layer X ─► record: layers [X, …]
 *
 * If the process dies on the way, the next owner of the lock finds `sealing` in the record and continues (`repair`).
 * Before the first rename nothing has changed. After it, each step can be repeated.
 *
 * The folder of a running sandbox is copied while its processes are frozen. A disk with a limit is a file system of its
 * own, so it is copied too.
 */
export class DiskCapture {
  readonly #store: LayerStore
  readonly #trees: Trees

  constructor(store: LayerStore, trees: Trees) {
    this.#store = store
    this.#trees = trees
  }

  /** `upperOf` finds the writable side of a stopped sandbox's disk. */
  async capture(
    { sandboxId, incarnation }: Binding,
    sandboxes: Sandboxes,
    upperOf: (record: SandboxRecord) => Upper,
  ): Promise<CapturedDisk> {
    // Marks a sandbox that has died as stopped.
    await sandboxes.current(sandboxId)
    let draft: Draft | undefined
    let copied = false
    try {
      const record = await sandboxes.change(sandboxId, async (record) => {
        if (record.incarnation !== incarnation) throw sandboxes.interrupted(sandboxId)
        draft = await this.#store.begin(extraOf(record).layers)
        const upper = upperOf(record)
        if (record.status !== 'stopped') {
          await this.#copyRunning(await sandboxes.isolatedOf(record), draft)
          copied = true
        } else if ('folder' in upper)
          return this.#sealStopped(sandboxes.folderOf(sandboxId), record, upper.folder, draft)
        else copied = await this.#copyStopped(upper.file, draft)
        return record
      })
      const extra = extraOf(record)
      if (copied && draft) {
        this.#store.seal(draft.id)
        draft.keep()
      }
      const layers = copied && draft ? [draft.id, ...extra.layers] : extra.layers
      return { record, extra, layers, done: async () => draft?.done() }
    } catch (error) {
      await draft?.done()
      throw error
    }
  }

  /** Continues an interrupted `#sealStopped`, wherever it stopped. */
  async repair(record: SandboxRecord, upper: string): Promise<SandboxRecord> {
    const { sealing, ...extra } = extraOf(record)
    if (sealing === undefined) return record
    const moved = existsSync(this.#store.draftTreeOf(sealing)) || existsSync(this.#store.treeOf(sealing))
    if (!moved) {
      rmSync(`${upper}.next`, { recursive: true, force: true })
      // The draft is empty and no record names it any more, so the next sweep removes it.
      return withExtra(record, extra)
    }
    if (!existsSync(upper)) {
      if (existsSync(`${upper}.next`)) renameSync(`${upper}.next`, upper)
      else makeEmpty(upper, this.#store.draftTreeOf(sealing))
    }
    this.#store.seal(sealing)
    return withExtra(record, { ...extra, layers: [sealing, ...extra.layers] })
  }

  /** Resolves to the record with the new layer; to the same record if the sandbox has written nothing. */
  async #sealStopped(
    folder: string,
    record: SandboxRecord,
    upper: string,
    draft: Draft,
  ): Promise<SandboxRecord> {
    if (!existsSync(upper) || this.#isUnchanged(upper, extraOf(record).layers[0])) return record
    return guarded('Cannot turn the disk into a layer', async () => {
      makeEmpty(`${upper}.next`, upper)
      const noted = withExtra(record, { ...extraOf(record), sealing: draft.id })
      await writeRecord(folder, noted, { first: true }).catch((error) => {
        rmSync(`${upper}.next`, { recursive: true, force: true })
        throw error
      })
      draft.keep()
      await this.#trees.move(upper, draft.tree)
      return this.repair(noted, upper)
    })
  }

  /** Leaves a sandbox frozen that was frozen before. */
  async #copyRunning(isolated: IsolatedSandbox, draft: Draft): Promise<void> {
    if (isolated.upper === undefined)
      throw new SandboxError('internal', `The isolator does not show the disk of ${isolated.sandboxId}.`)
    const release = await isolated.hold()
    try {
      await this.#trees.copy(isolated.upper, draft.tree)
    } finally {
      release()
    }
  }

  /** Resolves to false if the sandbox has never written anything. */
  async #copyStopped(file: string, draft: Draft): Promise<boolean> {
    if (!existsSync(file)) return false
    await this.#trees.copyDisk(file, draft.tree)
    return true
  }

  /** The folder is empty and has the same owner and mode as the layer below. */
  #isUnchanged(upper: string, top: string | undefined): boolean {
    if (readdirSync(upper).length > 0) return false
    if (top === undefined) return true
    const [one, other] = [lstatSync(upper), lstatSync(this.#store.treeOf(top))]
    return one.mode === other.mode && one.uid === other.uid && one.gid === other.gid
  }
}

/** Makes an empty folder with the owner and mode of `like`. */
function makeEmpty(folder: string, like: string): void {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(dirname(folder), { recursive: true, mode: 0o700 })
  const { mode, uid, gid } = lstatSync(like)
  mkdirSync(folder, { mode: 0o700 })
  // For an ordinary account the shim sets the owner when it mounts the disk.
  if (process.getuid?.() === 0) chownSync(folder, uid, gid)
  chmodSync(folder, mode & 0o7777)
}
