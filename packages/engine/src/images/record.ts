import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { errnoOf, replaceFile, translate } from '@sandkasten/sdk/internal'
import { namesIn } from '../read-files.ts'
import { type ImagePlaces, layerFolder, refFile } from './places.ts'

/** An image in the store. */
export interface ImageRecord {
  readonly version: 1
  /** `python:3.12`, `base:latest`, `name@sha256:…`, `oci:/path`. */
  readonly name: string
  /** The digest of its manifest: `sha256:…`. An image with another digest is another image. */
  readonly digest: string
  /** The requested digest, if any: of a manifest, or of a list of manifests for several architectures. */
  readonly pinned?: string
  /** The source of the image, as the caller wrote it. */
  readonly source: string
  /** The creation time that the image states. */
  readonly created?: string
  /** When the image was added to the store, in milliseconds. */
  readonly addedAt: number
  /** Bytes of all its files; layers that it shares with other images are on disk once. */
  readonly size: number
  /** Keys of its layers, uppermost first. */
  readonly layers: readonly string[]
  readonly config: ImageConfig
}

/** The part of an image's configuration that a sandbox follows. Entrypoint and Cmd are ignored: PID 1 is the runner. */
export interface ImageConfig {
  readonly env: Readonly<Record<string, string>>
  readonly workdir: string
  readonly user: { readonly uid: number; readonly gid: number }
}

export interface LayerFacts {
  readonly version: 1
  readonly entries: number
  readonly bytes: number
  /** Files whose owners do not exist in a sandbox. They belong to `nobody` there. */
  readonly foreignOwners: number
  readonly skippedAttributes: number
  /** Devices, on machines where they cannot be created. Sandboxes cannot use them anyway. */
  readonly skippedDevices?: number
  readonly opaque: readonly string[]
}

export function readImage(places: ImagePlaces, name: string): ImageRecord | undefined {
  return readJson(refFile(places, name)) as ImageRecord | undefined
}

export function writeImage(places: ImagePlaces, record: ImageRecord): Promise<void> {
  return replaceFile(refFile(places, record.name), JSON.stringify(record))
}

export function allImages(places: ImagePlaces): ImageRecord[] {
  const files = namesIn(places.refs).filter((name) => /^[0-9a-f]{64}\.json$/.test(name))
  const images = files.map((name) => readJson(join(places.refs, name)) as ImageRecord | undefined)
  return images.filter((image) => image !== undefined).sort((one, other) => (one.name < other.name ? -1 : 1))
}

/** Undefined if the layer is missing or incomplete. */
export function readLayer(places: ImagePlaces, key: string): LayerFacts | undefined {
  if (!existsSync(layerFolder(places, key))) return undefined
  try {
    return readJson(join(places.layers, key, 'layer.json')) as LayerFacts | undefined
  } catch {
    return undefined
  }
}

function readJson(file: string): { version: 1 } | undefined {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw translate(error, `Cannot read ${file} of the image store`)
  }
  try {
    const value = JSON.parse(text)
    if (value?.version === 1) return value
  } catch {
    // Reported below.
  }
  throw new SandboxError(
    'internal',
    `The image store’s record ${file} is damaged or was written by a newer version.`,
    {
      hint: 'Update Sandkasten, or remove that file and pull or build the image again.',
    },
  )
}
