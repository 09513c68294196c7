import { existsSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { guarded, withLock } from '@sandkasten/sdk/internal'
import type { Programs } from '@sandkasten/sdk/provider'
import { type BuildOptions, buildImage } from './build/build.ts'
import { Draft } from './drafts.ts'
import { type Collected, collectGarbage, layersInUse } from './garbage.ts'
import { addImage, addLayer } from './import/add.ts'
import { askRegistry, type PullOptions } from './import/pull.ts'
import { type ImageSource, openDockerArchive, openLayout } from './import/source.ts'
import { type UnpackLimits, unpackFile, unpackLimits } from './import/unpack.ts'
import { missingImage } from './missing-image.ts'
import { missingLayer } from './missing-layer.ts'
import { type ImagePlaces, imagePlaces, layerFolder, refFile } from './places.ts'
import { programsIn } from './programs.ts'
import { allImages, type ImageConfig, type ImageRecord, readImage, readLayer, writeImage } from './record.ts'
import { parseReference, type Reference, repositoryOf, shown } from './reference.ts'
import type { ImageRights } from './rights.ts'

export interface ImageStoreOptions {
  /** The engine's root: images are in `images` below it. */
  readonly root: string
  /** Another folder for the images. */
  readonly imagesFolder?: string
  /** The runner's binary, which unpacks layers. */
  readonly runner: () => Promise<string>
  /** Required if this process cannot give files to the ids of sandboxes. */
  readonly rights?: ImageRights | undefined
  readonly limits?: Partial<UnpackLimits>
  /** Do not sync layers to the disk. For tests: a power cut would leave partial layers. */
  readonly volatile?: boolean
}

export type ImageProgress =
  | { readonly phase: 'fetch'; readonly done: number; readonly total: number }
  | { readonly phase: 'unpack'; readonly layer: number; readonly layers: number; readonly bytes: number }
  | { readonly phase: 'build'; readonly step: string }

export interface ImportOptions {
  /** The name in the store. Default: the name that the image gives itself. */
  readonly name?: string
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: ImageProgress) => void
}

export type RegistryOptions = Omit<ImportOptions, 'name'> & Pick<PullOptions, 'authfile' | 'skopeo'>
type RegistryReference = Extract<Reference, { kind: 'registry' }>

/** An image as sandboxes use it. */
export interface ImageLayers {
  readonly name: string
  readonly digest: string
  /** Folders on this machine, uppermost first. They are never changed. */
  readonly layers: readonly string[]
  readonly config: ImageConfig
}

/**
 * The images of this machine. Each layer is unpacked once and shared by all images and sandboxes. The folders are the
 * only state: any number of processes may use them at once, and each may be killed at any time. `places.ts` shows the
 * files, `garbage.ts` how they are removed.
 */
export class ImageStore {
  readonly #places: ImagePlaces
  readonly #users: readonly string[]
  readonly #limits: UnpackLimits
  readonly #volatile: boolean

  constructor(options: ImageStoreOptions) {
    const { runner, rights } = options
    this.#places = imagePlaces(options.imagesFolder ?? join(options.root, 'images'), { runner, rights })
    // The records in these folders name the layers that they use.
    this.#users = ['sandboxes', 'snapshots', 'layers'].map((name) => join(options.root, name))
    this.#limits = { ...unpackLimits, ...options.limits }
    this.#volatile = options.volatile ?? false
  }

  list(): ImageRecord[] {
    return allImages(this.#places)
  }

  /** Finds an image by name, by digest (`name@sha256:…` of an image that came by its tag), or by its source. */
  find(text: string): ImageRecord | undefined {
    const { name } = parseReference(text)
    const [, digest] = name.split('@')
    return (
      readImage(this.#places, name) ??
      this.list().find(
        (image) =>
          image.source === name ||
          (digest !== undefined &&
            image.digest === digest &&
            repositoryOf(image.name) === repositoryOf(name)),
      )
    )
  }

  /** The layers of an image. Throws `not_found` with the command that gets the image. */
  imageLayers(text: string): ImageLayers {
    const image = this.find(text)
    if (!image) throw missingImage(text, this.#names())
    const missing = image.layers.find((key) => !existsSync(layerFolder(this.#places, key)))
    if (missing) throw missingLayer(image, missing)
    const { name, digest, config } = image
    return { name, digest, config, layers: image.layers.map((key) => layerFolder(this.#places, key)) }
  }

  /** The images whose layers are all here, each with the programs that its files tell of. */
  programs(): Array<{ image: string; programs: Programs }> {
    return this.list().flatMap(({ name, layers, config }) => {
      const views = layers.map((key) => ({
        folder: layerFolder(this.#places, key),
        opaque: new Set(readLayer(this.#places, key)?.opaque),
      }))
      if (!views.every(({ folder }) => existsSync(folder))) return []
      return [{ image: name, programs: programsIn(views, config.env) }]
    })
  }

  /**
   * Imports an OCI layout (a folder or a tar archive) or a `docker save` archive: `oci:/path`,
   * `docker-archive:/path`, or the path alone.
   */
  async import(text: string, options: ImportOptions = {}): Promise<ImageRecord> {
    const reference = parseReference(text.startsWith('/') || text.startsWith('.') ? `oci:${text}` : text)
    if (reference.kind === 'registry')
      throw new SandboxError('invalid_argument', `“${shown(text)}” is not a file or folder on this disk.`, {
        hint: `To get it from a registry: sandkasten image pull ${shown(text)}`,
      })
    return this.#making(async (draft) => {
      const source = await this.#open(reference, draft, options)
      const given = options.name ?? source.name
      const name = given === undefined ? reference.name : parseReference(given).name
      return this.#add(draft, source, { name, source: reference.name }, options)
    })
  }

  /** Pulls from a registry. Fetches nothing if the image is in the store under any name. */
  async pull(
    text: string,
    options: RegistryOptions = {},
  ): Promise<ImageRecord & { readonly changed: boolean }> {
    const reference = parseReference(text)
    if (reference.kind !== 'registry') return { ...(await this.import(text, options)), changed: true }
    return this.#making((draft) => this.#pull(reference, draft, options))
  }

  /** Builds an image from a recipe: a name (`base`, `python`, `node`) or a folder with a `recipe.json`. */
  async build(recipe: string, options: ImportOptions & BuildOptions = {}): Promise<ImageRecord> {
    const unpacking = await this.#unpacking({})
    return this.#making((draft) => buildImage(this.#places, draft, recipe, { ...options, ...unpacking }))
  }

  /** Removes the name and its unused layers. Layers of sandboxes and snapshots stay until these are gone. */
  async remove(text: string): Promise<Collected & { readonly kept: boolean }> {
    const image = this.find(text)
    if (!image) throw missingImage(text, this.#names())
    await guarded('Cannot remove the image', () => rm(refFile(this.#places, image.name)))
    const collected = await this.prune()
    return { ...collected, kept: image.layers.some((key) => readLayer(this.#places, key) !== undefined) }
  }

  /**
   * Removes layers that no image, sandbox or snapshot uses. With `unused`, also images that no sandbox or snapshot
   * uses.
   */
  async prune({ unused = false } = {}): Promise<Collected & { readonly images: readonly string[] }> {
    const images: string[] = []
    if (unused) {
      const used = layersInUse(this.#users)
      for (const { name } of this.list().filter(({ layers }) => !layers.some((key) => used.has(key)))) {
        await rm(refFile(this.#places, name), { force: true })
        images.push(name)
      }
    }
    return { ...(await collectGarbage(this.#places, this.#users)), images }
  }

  /** Runs work in a draft. If the work fails, its finished layers are removed too. */
  async #making<T>(work: (draft: Draft) => Promise<T>): Promise<T> {
    if (process.getuid?.() !== 0 && !this.#places.rights)
      throw new SandboxError(
        'unsupported',
        'Images need a range of ids for the owners of their files, and this account has none.',
        {
          hint: '`sandkasten doctor` prints the commands that assign a range; or use sudo. The image `host` and root file system folders need none.',
        },
      )
    try {
      await using draft = await Draft.open(this.#places)
      return await work(draft)
    } catch (error) {
      // Report the first error. The next collection removes the leftovers.
      await this.prune().catch(() => {})
      throw error
    }
  }

  async #pull(reference: RegistryReference, draft: Draft, options: RegistryOptions) {
    const { name } = reference
    const before = readImage(this.#places, name)
    const remote = await askRegistry(reference, {
      ...options,
      scratch: draft.folder,
      onProgress: (done, total) => options.onProgress?.({ phase: 'fetch', done, total }),
    })
    const named = {
      name,
      source: name,
      pinned: reference.digest,
    }
    const same = this.list().find(({ digest }) => digest === remote.digest)
    await draft.need(same?.layers ?? [])
    const isWhole = () => same?.layers.every((key) => readLayer(this.#places, key))
    if (same && (await withLock(this.#places.lock, async () => isWhole()))) {
      if (before?.digest === same.digest) return { ...before, changed: false }
      const { pinned: _, ...rest } = same
      const record = { ...rest, ...named, addedAt: Date.now() }
      await writeImage(this.#places, record)
      return { ...record, changed: true }
    }
    const source = await remote.fetch(join(draft.folder, 'copy'))
    return { ...(await this.#add(draft, source, named, options)), changed: true }
  }

  async #add(
    draft: Draft,
    source: ImageSource,
    named: Pick<ImageRecord, 'name' | 'source'> & { pinned?: string },
    options: ImportOptions,
  ): Promise<ImageRecord> {
    const unpacking = await this.#unpacking(options)
    for (const [index, layer] of source.layers.entries()) {
      let bytes = 0
      const tell = (count: number) => {
        bytes += count
        const [nth, layers] = [index + 1, source.layers.length]
        options.onProgress?.({ phase: 'unpack', layer: nth, layers, bytes })
      }
      await addLayer(this.#places, draft, layer, { ...unpacking, onBytes: tell })
    }
    const diffIds = source.layers.map(({ diffId }) => diffId)
    return addImage(this.#places, draft, {
      ...named,
      unpacking,
      digest: source.digest,
      document: source.config,
      diffIds,
    })
  }

  async #open(
    reference: Exclude<Reference, { kind: 'registry' }>,
    draft: Draft,
    options: ImportOptions,
  ): Promise<ImageSource> {
    const { path, tag } = splitTag(reference.path)
    const stats = statSync(path, { throwIfNoEntry: false })
    if (!stats)
      throw new SandboxError('invalid_argument', `${shown(path)} does not exist.`, {
        hint: 'Use the folder of an OCI image layout, or a tar archive of one.',
      })
    if (stats.isDirectory()) return openLayout(path, tag)
    const folder = join(draft.folder, 'archive')
    await unpackFile(path, folder, { ...(await this.#unpacking(options)), plain: true })
    const isLayout = existsSync(join(folder, 'index.json'))
    const isDocker = existsSync(join(folder, 'manifest.json'))
    if (isDocker && (reference.kind === 'docker-archive' || !isLayout)) return openDockerArchive(folder)
    if (isLayout) return openLayout(folder, tag)
    throw new SandboxError('invalid_argument', `${basename(path)} contains no image.`, {
      hint: 'Use an OCI image layout (index.json) or the output of docker save (manifest.json).',
    })
  }

  async #unpacking({ signal }: { signal?: AbortSignal }) {
    const { rights } = this.#places
    const runner = await this.#places.runner()
    return { runner, rights, limits: this.#limits, volatile: this.#volatile, signal }
  }

  #names(): string[] {
    return this.list().map(({ name }) => name)
  }
}

/** `/path:tag`, unless that is the whole path. */
function splitTag(path: string): { path: string; tag?: string } {
  const colon = path.lastIndexOf(':')
  if (colon <= path.lastIndexOf('/') || existsSync(path)) return { path }
  return { path: path.slice(0, colon), tag: path.slice(colon + 1) }
}
