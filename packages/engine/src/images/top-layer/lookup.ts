import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  type Stats,
} from 'node:fs'
import { join, posix } from 'node:path'
import { broken } from '../import/manifest.ts'

/** One layer, as it lies on this disk. */
export interface LayerView {
  readonly folder: string
  /** Opaque folders: paths that hide the layers below. */
  readonly opaque: ReadonlySet<string>
}

export interface Found {
  /** The real path, without links: `/usr/lib/x` for `/lib/x`. */
  readonly path: string
  /** Undefined if the path does not exist in the image. */
  readonly stats?: Stats
  /** On this disk. */
  readonly file?: string
}

/**
 * Looks up a path in a stack of layers, uppermost first, as overlayfs would show it. Links are followed inside the
 * stack, never on this machine: every step is one plain name in one folder.
 */
export function lookUp(layers: readonly LayerView[], path: string): Found {
  let todo = path.split('/')
  let here: string[] = []
  for (let links = 0; todo.length > 0; ) {
    const name = todo.shift()!
    if (name === '' || name === '.') continue
    if (name === '..') {
      here.pop()
      continue
    }
    const found = entry(layers, [...here, name])
    if (found?.stats.isSymbolicLink()) {
      links += 1
      if (links > 40) throw broken(`${path} has too many levels of symbolic links`)
      const target = readlinkSync(found.file)
      if (target.startsWith('/')) here = []
      todo = [...target.split('/'), ...todo]
      continue
    }
    here.push(name)
    if (!found || todo.every((rest) => rest === '' || rest === '.')) {
      if (found) return { path: `/${here.join('/')}`, ...found }
      return { path: posix.normalize(`/${[...here, ...todo].join('/')}`).replace(/(.)\/$/, '$1') }
    }
  }
  return { path: `/${here.join('/')}`, ...entry(layers, here) }
}

/** Reads a small text file of the image. Undefined if it does not exist or is not a file. */
export function readText(
  layers: readonly LayerView[],
  path: string,
  mostBytes = 1024 * 1024,
): string | undefined {
  const { file, stats } = lookUp(layers, path)
  if (file === undefined || !stats?.isFile()) return undefined
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    if (fstatSync(descriptor).size > mostBytes) throw broken(`its ${path} is too large`)
    return readFileSync(descriptor, 'utf8')
  } finally {
    closeSync(descriptor)
  }
}

/** The uppermost entry of that name whose parents are folders in every layer above it. */
function entry(
  layers: readonly LayerView[],
  parts: readonly string[],
): { stats: Stats; file: string } | undefined {
  for (const { folder, opaque } of layers) {
    let file = folder
    let stats: Stats | undefined = lstatSync(folder)
    let closed = opaque.has('')
    for (const [index, part] of parts.entries()) {
      file = join(file, part)
      stats = stats.isDirectory() ? lstatSync(file, { throwIfNoEntry: false }) : undefined
      // A whiteout, or an entry that is not a folder, hides the layers below.
      if (!stats) break
      if (isWhiteout(stats)) return undefined
      if (!stats.isDirectory() && index < parts.length - 1) return undefined
      closed ||= opaque.has(parts.slice(0, index + 1).join('/'))
    }
    if (stats) return { stats, file }
    if (closed) return undefined
  }
  return undefined
}

const isWhiteout = (stats: Stats) => stats.isCharacterDevice() && stats.rdev === 0
