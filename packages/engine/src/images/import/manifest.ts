import { SandboxError } from '@sandkasten/sdk'
import { sha256 } from '../places.ts'
import { shown } from '../reference.ts'

/**
 * The JSON documents of an image, in OCI's and Docker's format. They are untrusted: each is compared with its digest
 * first and then read field by field.
 */
export interface Descriptor {
  readonly digest: string
  readonly size: number
  readonly annotations: Readonly<Record<string, string>>
  readonly platform?: { readonly os: string; readonly architecture: string }
}

export interface Manifest {
  readonly config: Descriptor
  /** Lowest first. */
  readonly layers: readonly Descriptor[]
}

export interface ConfigDocument {
  readonly created?: string
  /** Digests of the layers' tar archives, lowest first. */
  readonly diffIds: readonly string[]
  readonly env: readonly string[]
  readonly workdir: string
  readonly user: string
}

/** A manifest, or a list of manifests for several platforms. */
export function parseManifest(bytes: Uint8Array): Manifest | { readonly manifests: readonly Descriptor[] } {
  const json = parse(bytes, 'manifest')
  if (json.schemaVersion !== 2)
    throw broken(`its manifest has the unsupported version ${shown(String(json.schemaVersion))}`)
  if (Array.isArray(json.manifests)) return { manifests: json.manifests.map(descriptor) }
  if (!Array.isArray(json.layers)) throw broken('its manifest has no layers')
  return { config: descriptor(json.config), layers: json.layers.map(descriptor) }
}

export function parseConfig(bytes: Uint8Array): ConfigDocument {
  const json = parse(bytes, 'configuration')
  const rootfs = record(json.rootfs)
  const config = record(json.config ?? {})
  if (!Array.isArray(rootfs.diff_ids) || !rootfs.diff_ids.every(isDigest))
    throw broken('its configuration has no diff_ids')
  const { os, architecture } = json
  if ((os && os !== 'linux') || (architecture && architecture !== thisPlatform))
    throw new SandboxError(
      'unsupported',
      `The image is for ${shown(`${os}/${architecture}`)}; this machine is linux/${thisPlatform}.`,
      { hint: 'Use the image for this machine’s platform.' },
    )
  const env = Array.isArray(config.Env) ? config.Env : []
  return {
    created: typeof json.created === 'string' ? json.created : undefined,
    diffIds: rootfs.diff_ids,
    env: env.filter((entry): entry is string => typeof entry === 'string'),
    workdir: text(config.WorkingDir),
    user: text(config.User),
  }
}

/** The manifest for this machine. A list of one needs no platform. */
export function choose(manifests: readonly Descriptor[], tag?: string): Descriptor {
  const tagged = tag === undefined ? [] : manifests.filter((one) => namesOf(one).includes(tag))
  const candidates = tagged.length > 0 ? tagged : manifests
  const fitting = candidates.filter(
    ({ platform }) => platform?.os === 'linux' && platform.architecture === thisPlatform,
  )
  const chosen = fitting[0] ?? (candidates.length === 1 ? candidates[0] : undefined)
  if (chosen) return chosen
  const names = manifests.flatMap(namesOf).map(shown)
  throw new SandboxError(
    'unsupported',
    `None of its ${manifests.length} manifests is for linux/${thisPlatform}.`,
    {
      hint:
        names.length > 0 ? `Available: ${names.join(', ')}.` : 'Use an image for this machine’s platform.',
    },
  )
}

/** The annotation that names an image in a layout. */
export function namesOf({ annotations }: Descriptor): string[] {
  return ['io.containerd.image.name', 'org.opencontainers.image.ref.name']
    .map((key) => annotations[key])
    .filter((name) => name !== undefined)
}

/** A manifest for images that came without one (a `docker save` archive, a build). Its digest is always the same. */
export function writeManifest(configDigest: string, diffIds: readonly string[]): string {
  return JSON.stringify({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: { mediaType: 'application/vnd.oci.image.config.v1+json', digest: configDigest },
    layers: diffIds.map((digest) => ({ mediaType: 'application/vnd.oci.image.layer.v1.tar', digest })),
  })
}

export function checkDigest(bytes: Uint8Array, digest: string, what: string): void {
  const found = `sha256:${sha256(bytes)}`
  if (found !== digest) throw broken(`the digest of its ${what} is ${found}, but should be ${digest}`)
}

export const broken = (what: string) =>
  new SandboxError('invalid_argument', `The image is broken: ${what}.`, {
    hint: 'Download or export the image again. The store is unchanged.',
  })

const architectures: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386', ppc64: 'ppc64le' }
export const thisPlatform = architectures[process.arch] ?? process.arch

function descriptor(value: unknown): Descriptor {
  const json = record(value)
  const { digest, size, annotations, platform } = json
  if (!isDigest(digest)) throw broken(`“${shown(String(digest))}” is not a sha256 digest`)
  const named = Object.entries(record(annotations ?? {})).filter(([, name]) => typeof name === 'string')
  const { os, architecture } = record(platform ?? {})
  return {
    digest,
    size: typeof size === 'number' && size >= 0 ? size : 0,
    annotations: Object.fromEntries(named) as Record<string, string>,
    platform: typeof os === 'string' && typeof architecture === 'string' ? { os, architecture } : undefined,
  }
}

function parse(bytes: Uint8Array, what: string): Record<string, unknown> {
  try {
    return record(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)))
  } catch (cause) {
    throw SandboxError.is(cause) ? cause : broken(`its ${what} is not JSON`)
  }
}

function record(value: unknown): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>
  throw broken('a field has the wrong type')
}

function isDigest(value: unknown): value is string {
  return typeof value === 'string' && /^sha256:[0-9a-f]{64}$/.test(value)
}

const text = (value: unknown) => (typeof value === 'string' ? value : '')
