import { SandboxError } from '../../../errors.ts'
import type { FileChange } from '../../../spec/index.ts'

/**
 * A file system in memory: a tree of nodes that is walked as in POSIX (`..` after a link is the parent of the link's
 * target). Contents are immutable, so a reader keeps what it opened, and copies share them.
 */

export interface Content {
  readonly chunks: readonly Uint8Array[]
  readonly size: number
}

export interface VfsFile {
  readonly type: 'file'
  content: Content
  mode: number
  mtimeMs: number
}

export interface VfsDirectory {
  readonly type: 'directory'
  readonly entries: Map<string, VfsNode>
  mode: number
  mtimeMs: number
}

export interface VfsSymlink {
  readonly type: 'symlink'
  readonly target: string
  readonly mode: number
  readonly mtimeMs: number
}

export type VfsNode = VfsFile | VfsDirectory | VfsSymlink

/** The result of resolving a path. `node` is undefined if only the parent exists. The root has no parent. */
export interface Place {
  readonly path: string
  readonly name: string
  readonly parent?: VfsDirectory
  readonly node?: VfsNode
}

export const emptyContent: Content = { chunks: [], size: 0 }

export class Vfs {
  readonly root: VfsDirectory
  readonly workdir: string
  readonly now: () => number
  readonly watchers = new Set<(type: FileChange['type'], path: string) => void>()

  constructor(workdir: string, now: () => number, root?: VfsDirectory) {
    this.workdir = workdir
    this.now = now
    this.root = root ?? directory(now(), 0o755)
  }

  /** An independent copy of the tree. It shares the immutable contents. */
  copy(): VfsDirectory {
    return copyDirectory(this.root)
  }

  place(path: string, options: { follow: boolean }): Place {
    const stack: Array<{ name: string; node: VfsNode }> = [{ name: '', node: this.root }]
    let parts = (path.startsWith('/') ? path : `${this.workdir}/${path}`).split('/').filter(Boolean)
    let links = 0
    while (parts.length > 0) {
      const [part = '', ...rest] = parts
      parts = rest
      const { node: dir } = stack.at(-1)!
      if (dir.type !== 'directory') throw fsError('not_a_directory', path)
      if (part === '.') continue
      if (part === '..') {
        if (stack.length > 1) stack.pop()
        continue
      }
      checkNameLength(part, path)
      const node = dir.entries.get(part)
      const last = rest.every((later) => later === '.')
      if (!node) {
        if (last) return { path: `${pathOf(stack)}/${part}`, name: part, parent: dir }
        throw fsError('file_not_found', path)
      }
      if (node.type === 'symlink' && (options.follow || !last)) {
        links += 1
        if (links > 40) throw fsError('file_not_found', path, 'The symbolic links form a cycle.')
        if (node.target.startsWith('/')) stack.length = 1
        parts = [...node.target.split('/').filter(Boolean), ...rest]
        continue
      }
      stack.push({ name: part, node })
    }
    const { name, node } = stack.at(-1)!
    const above = stack.at(-2)?.node
    const parent = above?.type === 'directory' ? above : undefined
    return { path: pathOf(stack) || '/', name, node, parent }
  }

  /** The node at a path. Throws `file_not_found` if it does not exist. */
  node(path: string, options: { follow: boolean }): VfsNode {
    return this.place(path, options).node ?? fail(fsError('file_not_found', path))
  }

  put(place: Place, node: VfsNode): void {
    const { parent } = place
    if (!parent) throw fsError('is_a_directory', place.path)
    mayChange(parent, place.path)
    parent.entries.set(place.name, node)
    parent.mtimeMs = this.now()
    this.tell(place.node ? 'changed' : 'created', place.path)
  }

  remove(place: Place): void {
    const { parent } = place
    if (!parent) throw fsError('permission_denied', place.path, 'The root cannot be removed.')
    mayChange(parent, place.path)
    parent.entries.delete(place.name)
    parent.mtimeMs = this.now()
    this.tell('removed', place.path)
  }

  tell(type: FileChange['type'], path: string): void {
    for (const watcher of this.watchers) watcher(type, path)
  }
}

export function directory(now: number, mode: number): VfsDirectory {
  return { type: 'directory', entries: new Map(), mode, mtimeMs: now }
}

export function copyDirectory(node: VfsDirectory): VfsDirectory {
  const entries = [...node.entries].map(
    ([name, child]) => [name, child.type === 'directory' ? copyDirectory(child) : { ...child }] as const,
  )
  return { ...node, entries: new Map(entries) }
}

type FsCode =
  | 'file_not_found'
  | 'file_exists'
  | 'not_a_directory'
  | 'is_a_directory'
  | 'directory_not_empty'
  | 'permission_denied'
  | 'invalid_argument'

export function fsError(code: FsCode, path: string, what?: string): SandboxError {
  return new SandboxError(code, `${path}: ${what ?? words[code]}`, { provider: 'memory', details: { path } })
}

export function mayRead(node: VfsNode, path: string): void {
  if ((node.mode & 0o400) === 0) throw fsError('permission_denied', path)
}

export function mayChange(node: VfsNode, path: string): void {
  if ((node.mode & 0o200) === 0) throw fsError('permission_denied', path)
}

const words: Record<FsCode, string> = {
  file_not_found: 'The file or directory does not exist.',
  file_exists: 'The path exists already.',
  not_a_directory: 'Part of the path is not a directory.',
  is_a_directory: 'The path is a directory.',
  directory_not_empty: 'The directory is not empty.',
  permission_denied: 'The mode of the file or of its directory does not allow this.',
  invalid_argument: 'The operation is not possible.',
}

function checkNameLength(part: string, path: string): void {
  if (part.length > 63 && new TextEncoder().encode(part).byteLength > 255) {
    throw fsError('invalid_argument', path, 'A component of the path is longer than 255 bytes.')
  }
}

function pathOf(stack: ReadonlyArray<{ name: string }>): string {
  return stack.map(({ name }) => name).join('/')
}

function fail(error: SandboxError): never {
  throw error
}
