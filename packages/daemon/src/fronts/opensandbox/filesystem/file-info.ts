import path from 'node:path'
import type { FileStat } from '@sandkasten/sdk'
import type { Used } from '../../../sessions/index.ts'
import type { Owners } from '../../shared/owners.ts'
import { notSupported } from '../../shared/request.ts'

export type Files = Used['sandbox']['files']

/** Relative paths start at the session's working directory. */
export function absolute({ sandbox }: Used, given: string): string {
  return path.posix.resolve(sandbox.workdir, given)
}

/** A file's metadata. SDKs need a creation time, which is unknown, so the time of the last change is used. */
export function fileInfo(file: string, stat: FileStat, owners: Owners): object {
  return {
    path: file,
    type: stat.type,
    size: stat.size,
    modified_at: new Date(stat.mtimeMs ?? 0).toISOString(),
    created_at: new Date(stat.mtimeMs ?? 0).toISOString(),
    owner: owners.ownerOf(stat),
    group: owners.groupOf(stat),
    mode: stat.mode && Number(stat.mode.toString(8)),
  }
}

/** Everything in a sandbox belongs to its one account. */
export function refuseOwner({ owner, group }: { owner?: string; group?: string }): void {
  if (owner !== undefined || group !== undefined)
    throw notSupported('owner and group', 'Leave them out. A sandbox has one account.')
}
