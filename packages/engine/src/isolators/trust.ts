import { readFileSync } from 'node:fs'
import { rootCertificates } from 'node:tls'
import { type LayerView, lookUp } from '../images/top-layer/lookup.ts'
import { javaStore } from './java-trust.ts'

/**
 * How a sandbox trusts its own certificate authority: it is added to the image's certificates, in the file where the
 * programs of Debian, Alpine, Red Hat and SUSE look. Programs with certificates of their own find the file by
 * variables.
 *
 * The files are generated for each start, below the sandbox's own files, like `/etc/resolv.conf`. They are not mounted
 * over the image's: that would make `update-ca-certificates` fail, and with it `apt-get install` of many packages.
 */
export interface GeneratedFile {
  /** Relative to the root. */
  readonly path: string
  /** A file of the image on this machine, which comes before the text. */
  readonly source?: string
  readonly text: string
  /** The whole content instead of a text. */
  readonly data?: Buffer
}

/** Debian's and Alpine's file comes first, and is made where it is missing: the variables name it. */
const BUNDLES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
] as const

/** Java's own files: of Debian, Ubuntu and Alpine, of Red Hat, of SUSE, and of the images of Temurin. */
export const JAVA_STORES = [
  '/etc/ssl/certs/java/cacerts',
  '/etc/pki/ca-trust/extracted/java/cacerts',
  '/var/lib/ca-certificates/java-cacerts',
  '/opt/java/openjdk/lib/security/cacerts',
] as const

/** The authority alone, and the same where `update-ca-certificates` looks, so that it stays in the file that it writes. */
const AUTHORITY = '/etc/sandkasten/ca.pem'
export const LOCAL = '/usr/local/share/ca-certificates/sandkasten.crt'

/** What follows is a sandbox's own: a disk that is copied with its files must not bring the authority along. */
const MARK = '# Sandkasten'

export const MAX_BUNDLE = 2 * 1024 * 1024

/** Each is needed by a program that looks into no file of the system. */
export const trustVariables: Readonly<Record<string, string>> = {
  // OpenSSL where it is linked statically or reads folders of hashes: Python, Ruby, uv, rustls.
  SSL_CERT_FILE: BUNDLES[0],
  // Node, npm, Bun.
  NODE_EXTRA_CA_CERTS: AUTHORITY,
  // Python's requests, and pip in it, bring certificates of their own.
  REQUESTS_CA_BUNDLE: BUNDLES[0],
}

/**
 * `folders` are the image's layers, uppermost first. Their content is hostile: links are followed inside the image
 * only. With `ownPrograms`, `/usr` belongs to the image.
 */
export function trustFiles(
  authority: string,
  folders: readonly string[],
  { ownPrograms, immutable = false }: { readonly ownPrograms: boolean; readonly immutable?: boolean },
): GeneratedFile[] {
  const { source, bundles, local, java } = immutable ? knownPlaces(folders) : findPlaces(folders)
  const text = source === undefined ? bundleOf(undefined, authority) : `\n${MARK}\n${authority}`
  return [
    ...bundles.map((path) => ({ path: path.slice(1), text, ...(source === undefined ? {} : { source }) })),
    ...aloneFiles(authority, ownPrograms ? local : undefined),
    ...java.map(({ path, file }) => ({
      path: path.slice(1),
      text: '',
      data: javaStore(
        readFileSync(file),
        () => (source === undefined ? text : readFileSync(source, 'utf8')),
        authority,
      ),
    })),
  ]
}

/** A file of the image with the authority added, or the certificates that Node brings. */
export function bundleOf(imageText: string | undefined, authority: string): string {
  const [image = ''] = (imageText ?? '').split(`\n${MARK}\n`)
  const certificates = image.includes('-----BEGIN CERTIFICATE-----') ? image : rootCertificates.join('\n')
  return `${certificates}\n${MARK}\n${authority}`
}

export function aloneFiles(authority: string, local: string | undefined): GeneratedFile[] {
  return [AUTHORITY, local]
    .filter((path) => path !== undefined)
    .map((path) => ({ path: path.slice(1), text: authority }))
}

/** All folders that lead to these files, parents first. */
export function foldersOf(files: readonly GeneratedFile[]): string[] {
  const folders = files.flatMap(({ path }) => {
    const parts = path.split('/').slice(0, -1)
    return parts.map((_, index) => parts.slice(0, index + 1).join('/'))
  })
  return [...new Set(folders)]
}

/** `file` is on this machine. A damaged or hostile image has no certificates. */
function lookUpOr(layers: readonly LayerView[], path: string): { path: string; file?: string } {
  try {
    const found = lookUp(layers, path)
    const usable = found.stats?.isFile() === true && found.stats.size > 0 && found.stats.size <= MAX_BUNDLE
    return { path: found.path, ...(usable && found.file !== undefined ? { file: found.file } : {}) }
  } catch {
    return { path }
  }
}

/** Where an image has its certificates. */
interface Places {
  /** A file of the image on this machine. Undefined: it has none. */
  readonly source: string | undefined
  readonly bundles: readonly string[]
  readonly local: string
  /** Java's files, which only images with Java have. */
  readonly java: ReadonlyArray<{ readonly path: string; readonly file: string }>
}

function findPlaces(folders: readonly string[]): Places {
  const layers = folders.map((folder): LayerView => ({ folder, opaque: new Set() }))
  const found = BUNDLES.map((path) => lookUpOr(layers, path))
  const places = found.filter(({ file }, index) => file !== undefined || index === 0)
  return {
    source: found.find(({ file }) => file !== undefined)?.file,
    bundles: [...new Set(places.map(({ path }) => path))],
    local: lookUpOr(layers, LOCAL).path,
    java: JAVA_STORES.map((path) => lookUpOr(layers, path)).flatMap(({ path, file }) =>
      file === undefined ? [] : [{ path, file }],
    ),
  }
}

const MAX_KNOWN = 64
const known = new Map<string, Places>()

/** The same for layers that never change, looked up once: it takes a twentieth of a start. */
function knownPlaces(folders: readonly string[]): Places {
  const key = folders.join('\0')
  const places = known.get(key) ?? findPlaces(folders)
  known.delete(key)
  known.set(key, places)
  if (known.size > MAX_KNOWN) known.delete(known.keys().next().value!)
  return places
}
