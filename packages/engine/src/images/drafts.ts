import { readFileSync } from 'node:fs'
import { mkdir, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import {
  errnoOf,
  identityOf,
  isAlive,
  type ProcessIdentity,
  replaceFile,
  translate,
} from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import { namesIn } from '../read-files.ts'
import type { ImagePlaces } from './places.ts'
import { removeTree } from './remove-tree.ts'

/**
 * Work in progress: a folder that names its owner before it contains anything else. While that process lives, garbage
 * collection keeps the folder and the layers that it names. After its end, the next collection removes it.
 */
export class Draft {
  readonly folder: string
  readonly #needs = new Set<string>()
  readonly #owner: ProcessIdentity
  readonly #places: ImagePlaces

  private constructor(folder: string, owner: ProcessIdentity, places: ImagePlaces) {
    this.folder = folder
    this.#owner = owner
    this.#places = places
  }

  static async open(places: ImagePlaces): Promise<Draft> {
    return writing(places, async () => {
      for (const folder of [places.layers, places.refs, places.drafts, places.trash]) await makeFolder(folder)
      await removeAbandoned(places)
      const id = randomId()
      const draft = new Draft(join(places.drafts, id), await identityOf(process.pid), places)
      // The folder has another name until it contains its owner, because a folder without an owner may be removed.
      const unnamed = join(places.drafts, `.${process.pid}.${id}`)
      await mkdir(unnamed, { mode: 0o700 })
      await replaceFile(join(unnamed, 'owner.json'), draft.#text())
      await rename(unnamed, draft.folder)
      return draft
    })
  }

  /** Protects these layers from removal. */
  async need(keys: Iterable<string>): Promise<void> {
    for (const key of keys) this.#needs.add(key)
    await replaceFile(join(this.folder, 'owner.json'), this.#text())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await removeTree(this.folder, this.#places)
  }

  #text(): string {
    return JSON.stringify({ ...this.#owner, layers: [...this.#needs] })
  }
}

/** `recursive` would report a read-only disk as a missing folder. */
async function makeFolder(folder: string): Promise<void> {
  // Another process may make the same one at the same time.
  const make = () =>
    mkdir(folder, { mode: 0o700 }).catch((error) => {
      if (errnoOf(error) !== 'EEXIST') throw error
    })
  await make().catch(async (error) => {
    if (errnoOf(error) !== 'ENOENT') throw error
    await makeFolder(dirname(folder))
    await make()
  })
}

async function writing<T>(places: ImagePlaces, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    const error = translate(cause, 'Cannot write to the image store')
    if (error.code !== 'permission_denied') throw error
    throw new SandboxError('permission_denied', error.message, {
      cause,
      hint: `Make ${places.root} writable for this process, or choose another \`root\` (SANDKASTEN_HOME).`,
    })
  }
}

/** Layers that drafts need. */
export async function layersOfDrafts(places: ImagePlaces): Promise<string[]> {
  const owners = namesIn(places.drafts).map((id) => ownerOf(join(places.drafts, id)))
  return owners.flatMap((owner) => owner?.layers ?? [])
}

/** Removes drafts of processes that are gone. */
export async function removeAbandoned(places: ImagePlaces): Promise<number> {
  let removed = 0
  for (const id of namesIn(places.drafts)) {
    const folder = join(places.drafts, id)
    const unnamed = /^\.(\d+)\./.exec(id)
    const owner = unnamed ? await identityOf(Number(unnamed[1])) : ownerOf(folder)
    // A folder without an owner file yet belongs to the process in its name. If the pid was reused, the folder only
    // stays longer.
    const alive = unnamed ? owner?.started !== undefined : await isAlive(owner)
    if (alive) continue
    // Children of a killed builder may still write there; then the next collection removes it.
    removed += await removeTree(folder, places).then(
      () => 1,
      () => 0,
    )
  }
  return removed
}

function ownerOf(folder: string): (ProcessIdentity & { layers: string[] }) | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, 'owner.json'), 'utf8'))
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || error instanceof SyntaxError) return undefined
    throw error
  }
}
