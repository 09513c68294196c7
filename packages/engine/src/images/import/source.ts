import { readFileSync, realpathSync, statSync } from 'node:fs'
import { join, sep } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { errnoOf, translate } from '@sandkasten/sdk/internal'
import { sha256 } from '../places.ts'
import {
  broken,
  type ConfigDocument,
  checkDigest,
  choose,
  type Manifest,
  namesOf,
  parseConfig,
  parseManifest,
  writeManifest,
} from './manifest.ts'

/** An image on this disk whose documents are read and whose layers are not yet unpacked. */
export interface ImageSource {
  /** The name that the image gives itself. */
  readonly name?: string
  readonly digest: string
  readonly config: ConfigDocument
  /** Lowest first. */
  readonly layers: readonly SourceLayer[]
}

export interface SourceLayer {
  /** The digest of the tar archive. */
  readonly diffId: string
  /** The archive, compressed or not. */
  readonly file: string
  /** The digest of that file, if the image states it. */
  readonly digest?: string
}

/** Documents are a few kilobytes. */
const MAX_DOCUMENT = 8 * 1024 * 1024

/** An OCI image layout. */
export function openLayout(folder: string, tag?: string): ImageSource {
  const blob = (digest: string) => inside(folder, `blobs/sha256/${digest.slice('sha256:'.length)}`)
  let document = parseManifest(read(inside(folder, 'index.json'), 'index.json'))
  let name: string | undefined
  let digest = ''
  // An index may contain an index. Deeper nesting is rejected.
  for (let depth = 0; 'manifests' in document; depth += 1) {
    if (depth > 3) throw broken('its indexes are nested too deeply')
    const chosen = choose(document.manifests, tag)
    digest = chosen.digest
    name ??= namesOf(chosen).find((one) => one !== '')
    const bytes = read(blob(digest), 'manifest')
    checkDigest(bytes, digest, 'manifest')
    document = parseManifest(bytes)
  }
  return { name, ...fromManifest(document, digest, blob) }
}

/**
 * Opens the output of `skopeo copy … dir:`: the registry's own manifest, byte for byte, and blobs named by their
 * digests.
 */
export function openCopy(folder: string): ImageSource {
  const bytes = read(inside(folder, 'manifest.json'), 'manifest')
  const document = parseManifest(bytes)
  if ('manifests' in document) throw broken('it has a list of manifests instead of one manifest')
  return fromManifest(document, `sha256:${sha256(bytes)}`, (digest) =>
    inside(folder, digest.slice('sha256:'.length)),
  )
}

/** An unpacked `docker save` archive. */
export function openDockerArchive(folder: string): ImageSource {
  const bytes = read(inside(folder, 'manifest.json'), 'manifest')
  const images = savedImages(bytes)
  if (images.length > 1)
    throw new SandboxError(
      'invalid_argument',
      `The archive contains ${images.length} images instead of one.`,
      {
        hint: 'Save one image to an archive: docker save NAME > archive.tar',
      },
    )
  const { Config, RepoTags, Layers } = images[0]!
  if (typeof Config !== 'string' || !Array.isArray(Layers)) throw broken('its manifest.json has no layers')
  const configBytes = read(inside(folder, Config), 'configuration')
  const config = parseConfig(configBytes)
  if (config.diffIds.length !== Layers.length) throw broken('its layers are not those of its configuration')
  const manifest = writeManifest(`sha256:${sha256(configBytes)}`, config.diffIds)
  const name = Array.isArray(RepoTags) ? RepoTags.find((tag) => typeof tag === 'string') : undefined
  return {
    name,
    digest: `sha256:${sha256(manifest)}`,
    config,
    layers: config.diffIds.map((diffId, index) => ({ diffId, file: inside(folder, String(Layers[index])) })),
  }
}

interface SavedImage {
  readonly Config?: unknown
  readonly RepoTags?: unknown
  readonly Layers?: unknown
}

function savedImages(bytes: Buffer): SavedImage[] {
  let json: unknown
  try {
    json = JSON.parse(bytes.toString('utf8'))
  } catch {
    throw broken('its manifest.json is not JSON')
  }
  if (
    !Array.isArray(json) ||
    json.length === 0 ||
    !json.every((one) => typeof one === 'object' && one !== null)
  )
    throw broken('its manifest.json lists no image')
  return json
}

function fromManifest(
  manifest: Manifest,
  digest: string,
  blob: (digest: string) => string,
): Omit<ImageSource, 'name'> {
  const bytes = read(blob(manifest.config.digest), 'configuration')
  checkDigest(bytes, manifest.config.digest, 'configuration')
  const config = parseConfig(bytes)
  if (config.diffIds.length !== manifest.layers.length)
    throw broken('its layers are not those of its configuration')
  const layers = manifest.layers.map((layer, index) => ({
    diffId: config.diffIds[index]!,
    file: blob(layer.digest),
    digest: layer.digest,
  }))
  return { digest, config, layers }
}

/** A file of the image that exists and is below its folder. Old archives link to their own files. */
function inside(folder: string, name: string): string {
  try {
    const [root, file] = [realpathSync(folder), realpathSync(join(folder, name))]
    if (file.startsWith(root + sep) && statSync(file).isFile()) return file
  } catch (error) {
    if (!['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG'].includes(errnoOf(error) ?? ''))
      throw translate(error, `${name} cannot be read`)
  }
  throw broken(`${name.slice(0, 100)} is missing`)
}

function read(file: string, what: string): Buffer {
  if (statSync(file).size > MAX_DOCUMENT) throw broken(`its ${what} is too large`)
  return readFileSync(file)
}
