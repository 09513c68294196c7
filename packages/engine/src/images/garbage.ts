import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { errnoOf, guarded, translate, withLock } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import { layersOfDrafts, removeAbandoned } from './drafts.ts'
import { type ImagePlaces, layersNamedIn } from './places.ts'
import { allImages, entriesOf, readLayer } from './record.ts'
import { removeTree } from './remove-tree.ts'

/**
 * What nobody needs goes. Needed is a layer that an image names, a draft of a living process, or any record below the folders of `users`: a
 * sandbox's, a snapshot's. Nobody who makes one of these waits for us, so we look twice:
 *
 * ```text
 * collector:  look who needs what ─► rename the layer away ─► look again: needed now? rename it back : remove it
 * creator:    write the record ────► is every layer there?  no: the image is gone, say so
 * ```
 *
 * Whichever of the two is first, no layer goes that a finished record names. A collector that is killed in between leaves the layer in `trash`, where the
 * next one finds it and decides again. A record that cannot be read stops everything: what it needs is not known.
 */
export interface Collected {
  readonly layers: number
  readonly bytes: number
  /** Remains of processes that were killed. */
  readonly drafts: number
}

export async function collectGarbage(places: ImagePlaces, users: readonly string[]): Promise<Collected> {
  if (!existsSync(places.layers)) return { layers: 0, bytes: 0, drafts: 0 }
  return withLock(places.lock, () =>
    guarded('The image store could not be cleaned up', async () => {
      await mkdir(places.trash, { recursive: true, mode: 0o700 })
      const drafts = await removeAbandoned(places)
      await decide(places, users, new Map(entriesOf(places.trash).map((name) => [name, name.split('.')[0]!])))
      const needed = await neededLayers(places, users)
      const removed = new Map<string, string>()
      for (const key of entriesOf(places.layers).filter((name) => !needed.has(name))) {
        const name = `${key}.${randomId(8)}`
        await rename(join(places.layers, key), join(places.trash, name))
        removed.set(name, key)
      }
      return { ...(await decide(places, users, removed)), drafts }
    }),
  )
}

/** Of what lies in the trash: back if somebody needs it after all, else gone. */
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
    // Nobody puts back what is half removed, should we be killed.
    const gone = join(places.trash, `gone.${randomId(8)}`)
    await rename(folder, gone)
    await removeTree(gone, places)
    layers += 1
  }
  return { layers, bytes }
}

/** Somebody has made the same layer anew meanwhile. */
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

/** Layers that are named in a record of anybody: `<user>/<id>.json` or `<user>/<id>/….json`. */
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

/** What was removed since we saw its name needs nothing. */
function unlessGone<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw translate(error, 'A record that may name layers cannot be read')
  }
}
