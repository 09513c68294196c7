import { createHash } from 'node:crypto'
import { SandboxError } from '../../errors.ts'
import { mapLimit } from '../../shared/calls/map-limit.ts'
import type { CallOptions, FileStat } from '../../spec/index.ts'
import { parentsOf } from '../paths.ts'
import type { RecipeSandbox } from '../types.ts'
import { run, type Tool } from './tools.ts'

/** The state of a path as the sandbox claims it. */
export type RemoteEntry =
  | { type: 'missing' | 'directory' | 'other' }
  /** A parent is not a folder: it is a file, or a link to an unknown place. */
  | { type: 'blocked'; by: string }
  /** `executable` is undefined if the provider does not report it. */
  | { type: 'file'; executable: boolean | undefined; sha256: string }
  | { type: 'symlink'; target: string }

interface ProbeOptions extends CallOptions {
  tools: ReadonlySet<Tool>
}

/**
 * The state and hashes of many paths below a folder: three commands for thousands of files if the sandbox has `xargs`
 * and `sha256sum`, otherwise one or two calls per file.
 */
export async function probe(
  sandbox: RecipeSandbox,
  root: string,
  paths: readonly string[],
  options: ProbeOptions,
): Promise<Map<string, RemoteEntry>> {
  const folders = [...new Set(paths.flatMap(parentsOf))]
  const kinds = await kindsOf(sandbox, root, [...new Set([...folders, ...paths])], options)
  const blocking = new Set(
    folders.filter((folder) => kinds.get(folder) !== 'directory' && kinds.get(folder) !== 'missing'),
  )
  const open = paths.filter((path) => !parentsOf(path).some((folder) => blocking.has(folder)))
  const files = open.filter((path) => executables.has(kinds.get(path)!))
  const hashes = await hashesOf(sandbox, root, files, options)
  const links = open.filter((path) => kinds.get(path) === 'symlink')
  const targets = new Map(
    await mapLimit(
      links,
      8,
      async (path) => [path, await linkTarget(sandbox, `${root}/${path}`, options)] as const,
    ),
  )
  return new Map(
    paths.map((path): [string, RemoteEntry] => {
      const by = parentsOf(path).find((folder) => blocking.has(folder))
      if (by !== undefined) return [path, { type: 'blocked', by }]
      const sha256 = hashes.get(path)
      const target = targets.get(path)
      const kind = kinds.get(path)
      // The file may have changed or disappeared between the two checks.
      if (sha256 !== undefined) return [path, { type: 'file', executable: executables.get(kind!), sha256 }]
      if (target !== undefined) return [path, { type: 'symlink', target }]
      return [path, { type: kind === 'directory' || kind === 'other' ? kind : 'missing' }]
    }),
  )
}

type Kind = 'missing' | 'directory' | 'other' | 'file' | 'program' | 'unknown' | 'symlink'

const executables = new Map<Kind, boolean | undefined>([
  ['file', false],
  ['program', true],
  ['unknown', undefined],
])

const letters: Readonly<Record<string, Kind>> = {
  '-': 'missing',
  d: 'directory',
  o: 'other',
  f: 'file',
  x: 'program',
  l: 'symlink',
}

// One letter per argument, by shell builtins: no program is started per file.
const kindScript =
  'for f do if [ -L "$f" ]; then printf l; elif [ -f "$f" ]; then if [ -x "$f" ]; then printf x; else printf f; fi; ' +
  'elif [ -d "$f" ]; then printf d; elif [ -e "$f" ]; then printf o; else printf -; fi; done'

async function kindsOf(
  sandbox: RecipeSandbox,
  root: string,
  paths: readonly string[],
  { tools, signal }: ProbeOptions,
): Promise<Map<string, Kind>> {
  if (tools.has('xargs') && paths.length > 0) {
    const stdin = paths.map((path) => `./${path}\0`).join('')
    const result = await run(sandbox, {
      cmd: 'xargs',
      args: ['-0', 'sh', '-c', kindScript, 'sh'],
      cwd: root,
      stdin,
      signal,
    })
    if (result.exitCode === 0 && result.stdout.length === paths.length) {
      return new Map(paths.map((path, index) => [path, letters[result.stdout[index]!] ?? 'other']))
    }
  }
  return new Map(
    await mapLimit(
      paths,
      8,
      async (path) => [path, await kindOf(sandbox, `${root}/${path}`, { signal })] as const,
    ),
  )
}

async function kindOf(sandbox: RecipeSandbox, path: string, call: CallOptions): Promise<Kind> {
  let facts: FileStat
  try {
    facts = await sandbox.files.lstat(path, call)
  } catch (error) {
    if (SandboxError.is(error, 'file_not_found', 'not_a_directory')) return 'missing'
    // A parent is a link that leads out of the sandbox.
    if (SandboxError.is(error, 'path_outside')) return 'other'
    throw error
  }
  if (facts.type === 'file')
    return facts.mode === undefined ? 'unknown' : facts.mode & 0o100 ? 'program' : 'file'
  return facts.type
}

async function hashesOf(
  sandbox: RecipeSandbox,
  root: string,
  paths: readonly string[],
  { tools, signal }: ProbeOptions,
): Promise<Map<string, string>> {
  const hashes = new Map<string, string>()
  const program = tools.has('sha256sum')
    ? ['sha256sum']
    : tools.has('shasum')
      ? ['shasum', '-a', '256']
      : undefined
  if (program && tools.has('xargs')) {
    // These programs escape such names in different ways, so they are handled separately.
    const plain = paths.filter((path) => !/[\n\r\\]/.test(path))
    for (let at = 0; at < plain.length; at += 5000) {
      const stdin = plain
        .slice(at, at + 5000)
        .map((path) => `./${path}\0`)
        .join('')
      const result = await run(sandbox, {
        cmd: 'xargs',
        args: ['-0', ...program, '--'],
        cwd: root,
        stdin,
        signal,
      })
      for (const line of result.stdout.split('\n')) {
        const match = /^([0-9a-f]{64}) [ *]\.\/(.+)$/.exec(line)
        if (match) hashes.set(match[2]!, match[1]!)
      }
    }
  }
  const rest = paths.filter((path) => !hashes.has(path))
  await mapLimit(rest, 4, async (path) => {
    const sha256 = await hashByReading(sandbox, `${root}/${path}`, { signal })
    if (sha256 !== undefined) hashes.set(path, sha256)
  })
  return hashes
}

async function hashByReading(
  sandbox: RecipeSandbox,
  path: string,
  call: CallOptions,
): Promise<string | undefined> {
  const hash = createHash('sha256')
  try {
    for await (const chunk of await sandbox.files.readStream(path, call)) hash.update(chunk)
  } catch (error) {
    if (
      SandboxError.is(
        error,
        'file_not_found',
        'is_a_directory',
        'not_a_directory',
        'permission_denied',
        'path_outside',
      )
    )
      return undefined
    throw error
  }
  return hash.digest('hex')
}

async function linkTarget(
  sandbox: RecipeSandbox,
  path: string,
  { signal }: CallOptions,
): Promise<string | undefined> {
  try {
    return await sandbox.files.readlink(path, { signal })
  } catch (error) {
    if (SandboxError.is(error, 'aborted', 'not_running', 'interrupted', 'connection_lost', 'unavailable'))
      throw error
    return undefined
  }
}
