/** Small images for tests, as OCI layouts and `docker save` archives, and a store for them. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { imageRights } from '../../isolators/oci/privileges/privileges.ts'
import { buildRunner } from '../../runner/build-runner.ts'
import { ImageStore, type ImageStoreOptions } from '../store.ts'
import { file, tar } from './tar.ts'

export interface ImageParts {
  /** Tar archives, lowest first. */
  readonly layers: readonly Buffer[]
  readonly config?: { Env?: string[]; WorkingDir?: string; User?: string }
  readonly name?: string
  /** The compression of layers. Default: none. */
  readonly compress?: (bytes: Buffer) => Buffer
  /** Changes the documents before they get their digests. */
  readonly change?: (documents: {
    config: Record<string, unknown>
    manifest: Record<string, unknown>
  }) => void
}

export const digestOf = (bytes: Buffer | string) =>
  `sha256:${createHash('sha256').update(bytes).digest('hex')}`

/** Files of an OCI image layout. */
export function layoutFiles(parts: ImageParts): { files: Record<string, Buffer>; digest: string } {
  const { layers, compress = (bytes) => bytes, name } = parts
  const files: Record<string, Buffer> = { 'oci-layout': json({ imageLayoutVersion: '1.0.0' }) }
  const put = (bytes: Buffer) => {
    const digest = digestOf(bytes)
    files[`blobs/sha256/${digest.slice(7)}`] = bytes
    return { digest, size: bytes.length }
  }
  const config: Record<string, unknown> = {
    os: 'linux',
    architecture: process.arch === 'x64' ? 'amd64' : process.arch,
    created: '2024-05-06T07:08:09Z',
    config: parts.config ?? {},
    rootfs: { type: 'layers', diff_ids: layers.map(digestOf) },
  }
  const manifest: Record<string, unknown> = { schemaVersion: 2, config: {}, layers: [] }
  parts.change?.({ config, manifest })
  manifest.layers = layers.map((layer) => ({
    mediaType: 'application/vnd.oci.image.layer.v1.tar',
    ...put(compress(layer)),
  }))
  manifest.config = { mediaType: 'application/vnd.oci.image.config.v1+json', ...put(json(config)) }
  const described = put(json(manifest))
  const annotations = name === undefined ? {} : { 'org.opencontainers.image.ref.name': name }
  files['index.json'] = json({
    schemaVersion: 2,
    manifests: [{ mediaType: 'application/vnd.oci.image.manifest.v1+json', ...described, annotations }],
  })
  return { files, digest: described.digest }
}

export function writeLayout(folder: string, parts: ImageParts): { path: string; digest: string } {
  const { files, digest } = layoutFiles(parts)
  mkdirSync(join(folder, 'blobs/sha256'), { recursive: true })
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes)
  return { path: folder, digest }
}

/** Files of a `docker save` archive. */
export function dockerArchive({ layers, config = {}, name = 'saved:1' }: ImageParts): Buffer {
  const document = json({ os: 'linux', config, rootfs: { type: 'layers', diff_ids: layers.map(digestOf) } })
  const manifest = [
    { Config: 'config.json', RepoTags: [name], Layers: layers.map((_, index) => `${index}/layer.tar`) },
  ]
  return tar([
    file('config.json', document),
    ...layers.map((layer, index) => file(`${index}/layer.tar`, layer)),
    file('manifest.json', json(manifest)),
  ])
}

export const gzip = (bytes: Buffer) => gzipSync(bytes)

export interface TestStore extends Disposable {
  readonly folder: string
  readonly root: string
  readonly images: string
  readonly store: ImageStore
  readonly runner: string
  another(options?: Partial<ImageStoreOptions>): ImageStore
}

export async function testStore(): Promise<TestStore> {
  const folder = mkdtempSync(join(tmpdir(), 'images-'))
  const root = join(folder, 'root')
  const binary = process.env.SANDKASTEN_RUNNER ?? (await buildRunner())
  const another = (options: Partial<ImageStoreOptions> = {}) =>
    new ImageStore({ root, runner: async () => binary, volatile: true, rights: rights(), ...options })
  const rights = () => (process.getuid?.() === 0 ? undefined : imageRights())
  return {
    folder,
    root,
    images: join(root, 'images'),
    store: another(),
    runner: binary,
    another,
    [Symbol.dispose]() {
      const remove = ['/bin/rm', '-rf', '--', folder] as const
      const [program, ...args] = rights()?.asSandboxes(binary, ...remove) ?? remove
      execFileSync(program, args)
    },
  }
}

export const reasonToSkip =
  process.platform === 'linux' && process.getuid?.() === 0
    ? undefined
    : 'needs root on Linux: sudo -E npm test'

/** Like `reasonToSkip`, but an account with a range of ids is enough. */
export const reasonToSkipAnyone =
  process.platform === 'linux' && process.getuid?.() !== 0 && imageRights() ? undefined : reasonToSkip

const json = (value: unknown) => Buffer.from(JSON.stringify(value))
