import type { Programs } from '@sandkasten/sdk/provider'
import { type LayerView, lookUp, readText } from './top-layer/lookup.ts'

/** Big images list several thousand packages. */
const mostPackageBytes = 32 * 1024 * 1024

/**
 * The versions of the programs of an image, as its files state them. Nothing is run: the image is untrusted and a start
 * takes longer than the rest of a create. A program whose version is not stated counts as absent.
 */
export function programsIn(layers: readonly LayerView[], env: Readonly<Record<string, string>>): Programs {
  try {
    return withoutUndefined({ node: nodeIn(layers, env), python: pythonIn(layers) })
  } catch {
    // A damaged or hostile image has no known programs; a sandbox of it is refused or fails by itself.
    return {}
  }
}

/** The versions that the environment of an image states, where its files cannot be read. */
export function programsOfEnv(env: Readonly<Record<string, string>>): Programs {
  return withoutUndefined({ node: version(env.NODE_VERSION), python: version(env.PYTHON_VERSION) })
}

function nodeIn(layers: readonly LayerView[], env: Readonly<Record<string, string>>): string | undefined {
  const exists = (path: string) => lookUp(layers, path).stats?.isFile() === true
  // Official images have the headers and the variable; Debian's packages are in the package database.
  if (exists('/usr/local/bin/node'))
    return header(layers, '/usr/local/include/node/node_version.h') ?? version(env.NODE_VERSION)
  if (!exists('/usr/bin/node')) return undefined
  return header(layers, '/usr/include/node/node_version.h') ?? packageVersion(layers, 'nodejs')
}

/** `python3` is a link to `python3.13`. */
function pythonIn(layers: readonly LayerView[]): string | undefined {
  for (const folder of ['/usr/local/bin', '/usr/bin']) {
    const { path, stats } = lookUp(layers, `${folder}/python3`)
    if (!stats?.isFile()) continue
    return /\/python(\d+\.\d+)$/.exec(path)?.[1]
  }
  return undefined
}

function header(layers: readonly LayerView[], path: string): string | undefined {
  const text = readText(layers, path)
  const part = (name: string) =>
    new RegExp(`^#define NODE_${name}_VERSION (\\d+)\\s*$`, 'm').exec(text ?? '')?.[1]
  const parts = [part('MAJOR'), part('MINOR'), part('PATCH')]
  return parts.includes(undefined) ? undefined : parts.join('.')
}

function packageVersion(layers: readonly LayerView[], name: string): string | undefined {
  const text = readText(layers, '/var/lib/dpkg/status', mostPackageBytes) ?? ''
  const start = `\n${text}`.indexOf(`\nPackage: ${name}\n`)
  if (start === -1) return undefined
  const entry = text.slice(start, text.indexOf('\n\n', start) >>> 0)
  if (!/^Status: \S+ \S+ installed$/m.test(entry)) return undefined
  return version(/^Version: (?:\d+:)?(\d+(?:\.\d+)*)/m.exec(entry)?.[1])
}

function version(text: string | undefined): string | undefined {
  return text !== undefined && /^\d{1,4}(\.\d{1,4}){0,3}$/.test(text) ? text : undefined
}

function withoutUndefined(programs: { [P in keyof Programs]: string | undefined }): Programs {
  return Object.fromEntries(Object.entries(programs).filter(([, found]) => found !== undefined))
}
