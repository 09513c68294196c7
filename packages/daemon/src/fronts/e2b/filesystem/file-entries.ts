import path from 'node:path'
import type { FileStat } from '@sandkasten/sdk'
import type { Session, Used } from '../../../sessions/index.ts'
import type { Owners } from '../../shared/owners.ts'
import type { FileMetadata } from './file-metadata.ts'

type Files = Used['sandbox']['files']

/** Resolves a path as E2B does: relative paths and `~` begin at the account's home, the session's working directory. */
export function absolute(given: string, { workdir }: Session): string {
  const home = workdir ?? '/'
  if (given === '~' || given.startsWith('~/')) return path.posix.join(home, given.slice(1))
  return path.posix.resolve(home, given)
}

/** A file or folder as E2B's `filesystem.EntryInfo`. */
export async function entryOf(
  files: Files,
  file: string,
  stat: FileStat,
  metadata: FileMetadata,
  owners: Owners,
): Promise<object> {
  const mode = stat.mode ?? (stat.type === 'directory' ? 0o755 : 0o644)
  const own = metadata.of(file)
  return {
    name: path.posix.basename(file) || '/',
    type: types[stat.type],
    path: file,
    size: String(stat.size),
    mode,
    owner: owners.ownerOf(stat),
    group: owners.groupOf(stat),
    permissions: `${letters[stat.type]}${rights(mode)}`,
    modifiedTime: stat.mtimeMs === undefined ? undefined : new Date(stat.mtimeMs).toISOString(),
    symlinkTarget: stat.type === 'symlink' ? await files.readlink(file) : undefined,
    metadata: own,
  }
}

const types: Readonly<Record<FileStat['type'], string>> = {
  file: 'FILE_TYPE_FILE',
  directory: 'FILE_TYPE_DIRECTORY',
  symlink: 'FILE_TYPE_SYMLINK',
  other: 'FILE_TYPE_UNSPECIFIED',
}

const letters: Readonly<Record<FileStat['type'], string>> = {
  file: '-',
  directory: 'd',
  symlink: 'l',
  other: '?',
}

function rights(mode: number): string {
  return [6, 3, 0]
    .map((shift) => {
      const bits = (mode >> shift) & 7
      return `${bits & 4 ? 'r' : '-'}${bits & 2 ? 'w' : '-'}${bits & 1 ? 'x' : '-'}`
    })
    .join('')
}
