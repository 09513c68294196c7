import { SandboxError } from '../../errors.ts'
import type { CallOptions } from '../../spec/index.ts'
import { inBlocks } from '../blocks.ts'
import type { RepoState } from '../host/git-data.ts'
import { isReserved, isSafePath, stateFolder } from '../paths.ts'
import type { RecipeSandbox } from '../types.ts'

/**
 * A record of the upload, stored in the sandbox, so that a later upload or pull from any process knows what changed
 * on which side. The sandbox can forge it, so it is parsed as hostile input. A forged record can only make us skip
 * files, send them again, or report a conflict.
 */
export interface Manifest {
  version: 1
  files: Map<string, ManifestEntry>
  /** By the repository's path in the project, `''` for the project itself. */
  repos: Map<string, RepoState>
  /** Files of the HEAD commit that the working tree did not have. */
  deleted: Set<string>
}

export type ManifestEntry =
  | {
      type: 'file'
      mode: number
      size: number
      sha256: string
      atHead: boolean
    }
  | { type: 'symlink'; target: string; atHead: boolean }

export const manifestPath = (root: string): string => `${root}/${stateFolder}/upload.json`

/** Undefined if it is missing or unreadable. */
export async function readManifest(
  sandbox: RecipeSandbox,
  root: string,
  { signal }: CallOptions,
): Promise<Manifest | undefined> {
  let text: string
  try {
    text = await sandbox.files.readFile(manifestPath(root), {
      encoding: 'utf8',
      maxBytes: 256 * 1024 * 1024,
      signal,
    })
  } catch (error) {
    if (
      SandboxError.is(
        error,
        'file_not_found',
        'not_a_directory',
        'is_a_directory',
        'path_outside',
        'too_large',
      )
    )
      return undefined
    throw error
  }
  return parseManifest(text)
}

export async function writeManifest(
  sandbox: RecipeSandbox,
  root: string,
  manifest: Manifest,
  { signal }: CallOptions,
): Promise<void> {
  // Ignores itself in any surrounding repository.
  await sandbox.files.writeFile(`${root}/${stateFolder}/.gitignore`, '*\n', { signal })
  await sandbox.files.writeFile(manifestPath(root), inBlocks(manifestChunks(manifest)), { signal })
}

export function parseManifest(text: string): Manifest | undefined {
  let data: unknown
  try {
    data = JSON.parse(text)
  } catch {
    return undefined
  }
  if (!isRecord(data) || data.version !== 1 || !isRecord(data.files) || !isRecord(data.repos))
    return undefined
  const manifest: Manifest = { version: 1, files: new Map(), repos: new Map(), deleted: new Set() }
  for (const [path, value] of Object.entries(data.files)) {
    const entry = parseEntry(value)
    if (entry && isSafePath(path) && !isReserved(path)) manifest.files.set(path, entry)
  }
  for (const [path, value] of Object.entries(data.repos)) {
    const state = parseRepo(value)
    if (state && (path === '' || isSafePath(path))) manifest.repos.set(path, state)
  }
  for (const path of Array.isArray(data.deleted) ? data.deleted : []) {
    if (typeof path === 'string' && isSafePath(path)) manifest.deleted.add(path)
  }
  return manifest
}

/** Yields lines, so that a large manifest is never one string. */
async function* manifestChunks(manifest: Manifest): AsyncGenerator<string> {
  const { repos, deleted } = manifest
  yield `{"version":1,"repos":${JSON.stringify(Object.fromEntries(repos))},"deleted":${JSON.stringify([...deleted])},"files":{`
  let before = '\n'
  for (const [path, entry] of manifest.files) {
    yield `${before}${JSON.stringify(path)}:${JSON.stringify(entry)}`
    before = ',\n'
  }
  yield '\n}}\n'
}

function parseEntry(value: unknown): ManifestEntry | undefined {
  if (!isRecord(value)) return undefined
  const atHead = value.atHead === true
  const { mode, size, sha256, target } = value
  if (value.type === 'symlink' && typeof target === 'string' && !target.includes('\0'))
    return { type: 'symlink', target, atHead }
  if (value.type !== 'file' || typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256)) return undefined
  if (!Number.isSafeInteger(mode) || !Number.isSafeInteger(size)) return undefined
  return { type: 'file', mode: (mode as number) & 0o777, size: size as number, sha256, atHead }
}

function parseRepo(value: unknown): RepoState | undefined {
  if (!isRecord(value) || !isRecord(value.refs)) return undefined
  const state: RepoState = { sent: value.sent === true, refs: {} }
  for (const [name, id] of Object.entries(value.refs))
    if (isRefName(name) && isObjectId(id)) state.refs[name] = id
  if (isObjectId(value.head)) state.head = value.head
  if (typeof value.ref === 'string' && isRefName(value.ref)) state.ref = value.ref
  return state
}

/** A full object id, which is never an option or an expression for git. */
export function isObjectId(value: unknown): value is string {
  return typeof value === 'string' && /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(value)
}

/** Strict enough for a line of `update-ref --stdin`. */
export function isRefName(name: string): boolean {
  return /^refs\/(?:heads|tags)\/[^\s~^:?*[\\\p{Cc}]+$/u.test(name) && !name.includes('..')
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
