import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { errnoOf, guarded, translate, withLock } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import { namesIn } from '../read-files.ts'
import { layersOfDrafts, removeAbandoned } from './drafts.ts'
import { type ImagePlaces, layersNamedIn } from './places.ts'
import { allImages, readLayer } from './record.ts'
import { removeTree } from './remove-tree.ts'

/**
 * Removes unused layers. A layer is in use if an image, the draft of a living process, or a record below the folders
 * of `users` (sandboxes, snapshots) names it. Writing such a record needs no lock, so the collector reads them twice:
 *
 * ```text
 * collector:  read all records ──► rename the layer away ──► read again: in use? rename it back : remove it
 * creator:    write the record ──► is every layer there?  no: fail, the image is gone
 * ```
 *
 * In either order, no layer is removed that a finished record names. A collector that is killed in between leaves the
 * layer in `trash`, where the next collection decides again. A record that cannot be read stops the collection.
 */
export interface Collected {
  readonly layers: number
  readonly bytes: number
  /** Leftovers of killed processes. */
  readonly drafts: number
}

export async function collectGarbage(places: ImagePlaces, users: readonly string[]): Promise<Collected> {
  if (!existsSync(places.layers)) return { layers: 0, bytes: 0, drafts: 0 }
  return withLock(places.lock, () =>
    guarded('Cannot clean up the image store', async () => {
      await mkdir(places.trash, { recursive: true, mode: 0o700 })
      const drafts = await removeAbandoned(places)
      await decide(places, users, new Map(namesIn(places.trash).map((name) => [name, name.split('.')[0]!])))
      const needed = await neededLayers(places, users)
      const removed = new Map<string, string>()
      for (const key of namesIn(places.layers).filter((name) => !needed.has(name))) {
        const name = `${key}.${randomId(8)}`
        await rename(join(places.layers, key), join(places.trash, name))
        removed.set(name, key)
      }
      return { ...(await decide(places, users, removed)), drafts }
    }),
  )
}

/** Puts a layer in the trash back if it is in use after all, or removes it. */
async function decide(places: ImagePlaces, users: readonly string[], trash: ReadonlyMap<string, string>) {
  let [layers, bytes] = [0, 0]
  if (trash.size === 0) return { layers, bytes }
  const needed = await neededLayers(places, users)
  for (const [name, key] of trash) {
    const folder = join(places.trash, name)
    const restored =
      needed.has(key) && (await rename(folder, join(places.layers, key)).then(() => true, isThereAgain))
    if (restored) continue
    bytes += readLayer({ ...places, layers: places.trash }, name)?.bytes ?? 0
    // Renamed first: a half-removed layer must not be put back if this process is killed.
    const gone = join(places.trash, `gone.${randomId(8)}`)
    await rename(folder, gone)
    await removeTree(gone, places)
    layers += 1
  }
  return { layers, bytes }
}

/** Another process has created the same layer again. */
function isThereAgain(error: unknown): false {
  if (['EEXIST', 'ENOTEMPTY'].includes(errnoOf(error) ?? '')) return false
  throw error
}

async function neededLayers(places: ImagePlaces, users: readonly string[]): Promise<Set<string>> {
  // Drafts before images: a draft that ends between the two has become an image.
  const drafts = await layersOfDrafts(places)
  const images = allImages(places).flatMap(({ layers }) => layers)
  return new Set([...drafts, ...images, ...layersInUse(users)])
}

/** Layers that any record names: `<user>/<id>.json` or `<user>/<id>/….json`. */
export function layersInUse(users: readonly string[]): Set<string> {
  return new Set(users.flatMap((user) => recordsIn(user, 1)).flatMap(layersNamedIn))
}

function recordsIn(folder: string, depth: number): string[] {
  const entries = unlessGone(() => readdirSync(folder, { withFileTypes: true })) ?? []
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return depth > 0 ? recordsIn(path, depth - 1) : []
    return (entry.name.endsWith('.json') && unlessGone(() => readFileSync(path, 'utf8'))) || []
  })
}

/** A record that was removed since the listing names no layers. */
function unlessGone<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw translate(error, 'Cannot read a record that may name layers')
  }
}
