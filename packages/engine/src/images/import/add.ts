import { existsSync } from 'node:fs'
import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import { errnoOf, replaceFile, translate, withLock } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import { tarOf } from '../../tar.ts'
import type { Draft } from '../drafts.ts'
import { type ImagePlaces, layerFolder, sha256 } from '../places.ts'
import { type ImageRecord, type LayerFacts, readLayer, writeImage } from '../record.ts'
import { removeTree } from '../remove-tree.ts'
import type { LayerView } from '../top-layer/lookup.ts'
import { topLayerOf } from '../top-layer/top-layer.ts'
import { broken, type ConfigDocument } from './manifest.ts'
import type { SourceLayer } from './source.ts'
import { type Unpacking, unpackFile, unpackStream } from './unpack.ts'

/**
 * Adds layers and images to the store. A layer is made in a draft, synced, and gets its name by one rename. If two
 * processes make the same layer at once, one result is kept. The reference is written last, so an image that is found
 * is complete.
 */

/** Makes sure that the layer is in the store. True if it had to be unpacked. */
export async function addLayer(
  places: ImagePlaces,
  draft: Draft,
  layer: SourceLayer,
  options: Unpacking,
): Promise<boolean> {
  const key = keyOf(layer.diffId)
  await draft.need([key])
  if (readLayer(places, key)) return false
  const folder = await layerDraft(draft)
  const { facts, diffId } = await unpackFile(layer.file, join(folder, 'fs'), {
    ...options,
    digest: layer.digest,
  })
  if (diffId !== layer.diffId)
    throw broken(`the digest of a layer’s archive is ${diffId}, but should be ${layer.diffId}`)
  await keepLayer(places, folder, key, facts)
  return true
}

/** A folder in the draft for a layer that is being made. */
export async function layerDraft(draft: Draft): Promise<string> {
  const folder = join(draft.folder, `layer-${randomId(8)}`)
  await mkdir(folder, { mode: 0o700 }).catch((error) => {
    throw translate(error, 'Cannot write to the image store')
  })
  return folder
}

/** Renames the finished folder to the layer of that key, unless another process has created that layer. */
export async function keepLayer(
  places: ImagePlaces,
  folder: string,
  key: string,
  facts: LayerFacts,
): Promise<void> {
  await replaceFile(join(folder, 'layer.json'), JSON.stringify(facts))
  const target = join(places.layers, key)
  // The remains of a damaged layer are in the way.
  if (existsSync(target) && !readLayer(places, key))
    await rename(target, join(places.trash, `${key}.${randomId(8)}`)).catch(() => {})
  await rename(folder, target).catch((error) => {
    if (!['EEXIST', 'ENOTEMPTY'].includes(errnoOf(error) ?? ''))
      throw translate(error, 'Cannot write to the image store')
  })
}

export interface NewImage extends Pick<ImageRecord, 'name' | 'digest' | 'source'> {
  readonly pinned?: string
  readonly document: ConfigDocument
  /** Lowest first; all in the store. */
  readonly diffIds: readonly string[]
  readonly unpacking: Unpacking
}

/** Adds the top layer and writes the reference. */
export async function addImage(places: ImagePlaces, draft: Draft, image: NewImage): Promise<ImageRecord> {
  const keys = [...image.diffIds].reverse().map(keyOf)
  await draft.need(keys)
  // Wait for a running collection: it may have renamed a layer that it will put back.
  return withLock(places.lock, () => addNamed(places, draft, image, keys))
}

async function addNamed(
  places: ImagePlaces,
  draft: Draft,
  { document, diffIds: _, unpacking, ...named }: NewImage,
  keys: readonly string[],
): Promise<ImageRecord> {
  const facts = keys.map((key) => presentLayer(places, key))
  // overlayfs ignores whether the root of a layer hides the layers below.
  const closed = facts.findIndex(({ opaque }) => opaque.includes(''))
  const visible = closed === -1 ? keys : keys.slice(0, closed + 1)
  const views = visible.map((key, index) => viewOf(places, key, facts[index]!))
  const top = await addTop(places, draft, visible, views, document, unpacking)
  const record: ImageRecord = {
    version: 1,
    ...named,
    created: document.created,
    addedAt: Date.now(),
    size: facts.reduce((sum, { bytes }) => sum + bytes, 0),
    layers: [top.key, ...visible],
    config: top.config,
  }
  await writeImage(places, record)
  return record
}

/** Increase it when the output of `top-layer.ts` changes. */
const TOP_VERSION = 1

async function addTop(
  places: ImagePlaces,
  draft: Draft,
  keys: readonly string[],
  views: readonly LayerView[],
  document: ConfigDocument,
  unpacking: Unpacking,
) {
  const { env: _, created: __, diffIds: ___, ...rest } = document
  const key = `top-${sha256(JSON.stringify([TOP_VERSION, keys, rest])).slice(0, 32)}`
  await draft.need([key])
  const folder = await layerDraft(draft)
  try {
    const { config, entries } = await topLayerOf(places, views, document)
    await unpackStream(Readable.from([tarOf(entries)]), join(folder, 'fs'), unpacking)
    const facts = {
      version: 1,
      entries: 0,
      bytes: 0,
      foreignOwners: 0,
      skippedAttributes: 0,
      opaque: [],
    } as const
    await keepLayer(places, folder, key, facts)
    return { key, config }
  } catch (error) {
    throw translate(error, 'Cannot write to the image store')
  } finally {
    await removeTree(folder, places)
  }
}

function presentLayer(places: ImagePlaces, key: string): LayerFacts {
  const facts = readLayer(places, key)
  if (facts) return facts
  throw new SandboxError('conflict', `The layer ${key} was removed while it was being added.`, {
    hint: 'Try again.',
  })
}

const viewOf = (places: ImagePlaces, key: string, { opaque }: LayerFacts): LayerView => ({
  folder: layerFolder(places, key),
  opaque: new Set(opaque),
})

const keyOf = (diffId: string) => diffId.slice('sha256:'.length)
