import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { guarded, identityOf, type ProcessIdentity, sweepLocks, withLock } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import { removePartials, writeAtomically } from './atomic-file.ts'
import { Holds } from './holds.ts'
import type { Trees } from './trees.ts'

/**
 * Layers: read-only disks of sandboxes that other sandboxes use. All processes that use the same root share them.
 *
 *     layers/<id>/layer.json   the layers below, its age and its maker
 *     layers/<id>/tree/        the folder that overlayfs shows
 *     layers/<id>/size.json    its size, cached after the first request
 *     layers/.<id>/            a draft: the same while it is being made
 *     layers/.trash-<id>-…     perhaps unused
 *     layers/.trash-…          being removed
 *     layers/holds/            which process works with which layers, see holds.ts
 *
 * A layer is in use while a record of a sandbox or snapshot names it, or a living process holds it. Taking a hold and
 * deciding which layers are unused happen under one lock. The maker of a draft holds it. A draft that contains a
 * sandbox's disk is named in that sandbox's record before the disk moves.
 *
 * Creating a sandbox from a snapshot takes no hold, because that would be slow. So a sweep reads the records twice:
 *
 *     sweeper:  read records and holds ─► rename the layer away ─► read again: in use? rename it back : remove it
 *     creator:  read the snapshot ──► write the sandbox's record ─► is every layer there? no: read the snapshot again
 *
 * In either order, no layer is removed that a finished record names.
 */
export class LayerStore {
  readonly #folder: string
  readonly #trees: Trees
  readonly #holds: Holds
  /** Layers that survive a power cut, as far as this process knows. */
  readonly #safe = new Set<string>()

  constructor(root: string, trees: Trees) {
    this.#folder = path.join(root, 'layers')
    this.#trees = trees
    this.#holds = new Holds(path.join(this.#folder, 'holds'))
  }

  /** The folder that overlayfs mounts. */
  treeOf(id: string): string {
    return path.join(this.#folder, checked(id), 'tree')
  }

  draftTreeOf(id: string): string {
    return path.join(this.#folder, `.${checked(id)}`, 'tree')
  }

  /** The first of these layers that is missing. */
  lost(ids: readonly string[]): string | undefined {
    return ids.find((id) => !existsSync(this.treeOf(id)))
  }

  need(ids: readonly string[]): void {
    const lost = this.lost(ids)
    if (lost !== undefined) throw lostLayer(lost, path.join(this.#folder, lost))
  }

  /** Begins a layer. The draft and the layers below it are held until `done`. */
  async begin(below: readonly string[]): Promise<Draft> {
    const id = randomId()
    const release = await this.locked(async () => {
      this.need(below)
      return this.#holds.take([id, ...below])
    })
    const draft = new Draft(id, this, () => release())
    try {
      const record: LayerRecord = {
        version: 1,
        id,
        below,
        createdAt: Date.now(),
        creator: await identityOf(process.pid),
      }
      const folder = path.join(this.#folder, `.${id}`)
      await guarded('Cannot begin a layer', async () => {
        mkdirSync(folder, { mode: 0o700 })
      })
      await writeAtomically(path.join(folder, 'layer.json'), record, { durable: false })
      return draft
    } catch (error) {
      await draft.done()
      throw error
    }
  }

  /** Turns the draft into a layer, unless it is one. Call `sync` to make it survive a power cut. */
  seal(id: string): void {
    if (existsSync(this.treeOf(id))) return
    if (!existsSync(this.draftTreeOf(id))) throw lostLayer(id, path.join(this.#folder, `.${id}`))
    renameSync(path.join(this.#folder, `.${id}`), path.join(this.#folder, id))
  }

  /** Syncs these layers and files, so that they survive a power cut. */
  async sync(ids: readonly string[], ...files: string[]): Promise<void> {
    const unsafe = ids.filter((id) => !this.#safe.has(id))
    const folders = unsafe.map((id) => path.join(this.#folder, checked(id)))
    if (folders.length + files.length === 0) return
    await this.#trees.sync(...folders, ...files)
    for (const id of unsafe) this.#safe.add(id)
  }

  /** Syncs everything below the same root. */
  async syncAll(): Promise<void> {
    await this.#trees.syncAll(this.#folder)
  }

  /** Removes a draft that has not become a layer. */
  async discard(id: string): Promise<void> {
    const draft = path.join(this.#folder, `.${checked(id)}`)
    // A draft without a disk contains only our own files.
    if (existsSync(this.draftTreeOf(id))) await this.#trees.remove(draft)
    else rmSync(draft, { recursive: true, force: true })
  }

  /** The total size of these layers. Each is measured once, because a layer does not change. */
  async sizeOf(ids: readonly string[]): Promise<number> {
    let total = 0
    for (const id of ids) {
      const file = path.join(this.#folder, checked(id), 'size.json')
      let size = readJson<{ bytes: number }>(file)
      if (!size) {
        size = await this.#trees.measure(this.treeOf(id))
        await writeAtomically(file, size, { durable: false })
      }
      total += size.bytes
    }
    return total
  }

  /**
   * Removes unused layers and returns their ids. `inUse` returns the layers that records name. It runs under the lock
   * and after the holds were read, because a process writes its record before it releases a hold.
   */
  async sweep(inUse: () => Promise<ReadonlySet<string>>): Promise<string[]> {
    if (!existsSync(this.#folder)) return []
    const gone = new Set<string>()
    const trash = await this.locked(async () => {
      const held = await this.#holds.held()
      const used = await inUse()
      await sweepLocks(this.#folder)
      for (const name of readdirSync(this.#folder)) {
        const id = /^\.?([a-z2-7]{16})$/.exec(name)?.[1]
        if (id !== undefined) await removePartials(path.join(this.#folder, name))
        if (id === undefined || held.has(id) || used.has(id)) continue
        // Only its maker names a draft, and the maker held it.
        const of = name === id ? `${id}-` : ''
        renameSync(path.join(this.#folder, name), path.join(this.#folder, `.trash-${of}${randomId(8)}`))
        gone.add(id)
        this.#safe.delete(id)
      }
      const trash = readdirSync(this.#folder).filter((name) => name.startsWith('.trash-'))
      return trash.length === 0 ? [] : this.#decide(trash, await inUse(), gone)
    })
    await this.#trees.remove(...trash.map((name) => path.join(this.#folder, name)))
    return [...gone]
  }

  /**
   * Puts back layers that are in use after all. Renames the others once more, because removing them takes a while,
   * and returns their new names.
   */
  #decide(trash: readonly string[], used: ReadonlySet<string>, gone: Set<string>): string[] {
    return trash.flatMap((name) => {
      const id = /^\.trash-([a-z2-7]{16})-/.exec(name)?.[1]
      if (id === undefined) return [name]
      const back = used.has(id) && !existsSync(this.treeOf(id))
      const to = back ? id : `.trash-${randomId(8)}`
      renameSync(path.join(this.#folder, name), path.join(this.#folder, to))
      if (back) gone.delete(id)
      return back ? [] : [to]
    })
  }

  /** Serializes taking layers and removing them. */
  async locked<T>(work: () => Promise<T>): Promise<T> {
    await guarded('Cannot create the folder for layers', async () => {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    })
    return withLock(path.join(this.#folder, 'lock'), work)
  }
}

export interface LayerRecord {
  readonly version: 1
  readonly id: string
  /** The layers below it, uppermost first. */
  readonly below: readonly string[]
  readonly createdAt: number
  readonly creator: ProcessIdentity
}

/** A layer that is being made. */
export class Draft {
  readonly id: string
  readonly #store: LayerStore
  readonly #release: () => void
  #kept = false

  constructor(id: string, store: LayerStore, release: () => void) {
    this.id = id
    this.#store = store
    this.#release = release
  }

  /** The path for its content, which does not exist yet. */
  get tree(): string {
    return this.#store.draftTreeOf(this.id)
  }

  /** Keeps the draft on failure, because a record names it now. */
  keep(): void {
    this.#kept = true
  }

  /** Releases the hold. Removes the draft unless it became a layer or is kept. */
  async done(): Promise<void> {
    try {
      if (!this.#kept) await this.#store.discard(this.id)
    } finally {
      this.#release()
    }
  }
}

function lostLayer(id: string, where: string): SandboxError {
  return new SandboxError('internal', `The layer ${id} is missing, so disks that use it cannot be mounted.`, {
    details: { layer: id },
    hint: `Put ${where} back from a backup, or delete the snapshots and sandboxes that need it.`,
  })
}

/** Ids come from records and become paths, so they are checked. */
function checked(id: string): string {
  if (/^[a-z2-7]{16}$/.test(id)) return id
  throw new SandboxError('internal', `“${id}” is not a layer id.`)
}

function readJson<T>(file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T
  } catch {
    rmSync(file, { force: true })
    return undefined
  }
}
