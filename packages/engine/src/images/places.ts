import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { ImageRights } from './rights.ts'

/**
 * ```text
 * images/                       for its owner only: a layer may contain set-uid files and devices
 *   layers/<key>/fs             a layer in overlay form, never changed; the key is the SHA-256 of its tar archive
 *   layers/<key>/layer.json     its size, and its opaque folders: those that hide the layers below
 *   refs/<hash of name>.json    an image: name ─► digest, layers, config
 *   drafts/<id>/                being made; owner.json names the process and the layers that it needs
 *   trash/<key>.<id>            being removed
 *   collect.lock                held during a collection
 *   host-<fingerprint>/         the skeleton of the image `host`
 *   sudo-<fingerprint>/         the layer that adds `sudo` for the user root
 * ```
 */
export interface ImagePlaces {
  readonly root: string
  readonly layers: string
  readonly refs: string
  readonly drafts: string
  readonly trash: string
  readonly lock: string
  /** The runner's binary. */
  readonly runner: () => Promise<string>
  /** Required if this account cannot access the files in layers. */
  readonly rights: ImageRights | undefined
}

export function imagePlaces(
  imagesFolder: string,
  hands: Pick<ImagePlaces, 'runner' | 'rights'>,
): ImagePlaces {
  return {
    ...hands,
    root: imagesFolder,
    layers: join(imagesFolder, 'layers'),
    refs: join(imagesFolder, 'refs'),
    drafts: join(imagesFolder, 'drafts'),
    trash: join(imagesFolder, 'trash'),
    lock: join(imagesFolder, 'collect.lock'),
  }
}

export const layerFolder = (places: ImagePlaces, key: string) => join(places.layers, key, 'fs')

/** The file of a reference: by hash, because a name may have slashes and any length. */
export const refFile = (places: ImagePlaces, name: string) => join(places.refs, `${sha256(name)}.json`)

export function sha256(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** The layers that a text names by the path of their folder, as records do. */
export function layersNamedIn(text: string): string[] {
  return [...text.matchAll(/\/layers\/((?:top-)?[0-9a-f]{32,64})\/fs/g)].map(([, key]) => key!)
}
