import path from 'node:path'
import { type FileEntry, SandboxError } from '@sandkasten/sdk'
import { ownersIn } from '../../shared/owners.ts'
import { needed, parsed } from '../../shared/request.ts'
import { type Call, type Entry, several } from '../entry.ts'
import * as schemas from '../schemas.ts'
import { absolute, fileInfo, refuseOwner } from './file-info.ts'

export function folderRoutes(entry: Entry): void {
  entry.execd('GET', '/directories/list', 'read', async (call) => {
    const folder = needed(call, 'path')
    const depth = depthOf(call)
    return entry.list(call, async (used) => {
      const { files } = used.sandbox
      const { type } = await files.lstat(folder, { signal: call.signal })
      // The folder itself must not be a symbolic link either.
      if (type !== 'directory') throw new SandboxError('not_a_directory', `${folder} is not a folder.`)
      const entries = await files.list(folder, { recursive: depth > 1, signal: call.signal })
      const base = absolute(used, folder)
      const owners = await ownersIn(files, call.signal)
      return entries
        .filter((file) => file.path.split('/').length <= depth)
        .sort(byParts)
        .map((file) => fileInfo(path.posix.join(base, file.path), file, owners))
    })
  })

  entry.execd('POST', '/directories', 'exec', async (call) => {
    const wanted = Object.entries(parsed(schemas.permissions, call.body))
    for (const [, permission] of wanted) refuseOwner(permission)
    await entry.use(call, async ({ sandbox }) => {
      for (const [folder, { mode }] of wanted)
        await sandbox.files.mkdir(folder, {
          recursive: true,
          mode,
          signal: call.signal,
        })
    })
  })

  entry.execd('DELETE', '/directories', 'exec', async (call) => {
    const folders = several(call, 'path')
    await entry.use(call, async ({ sandbox }) => {
      for (const folder of folders)
        await sandbox.files.rm(folder, { recursive: true, force: true, signal: call.signal })
    })
  })
}

/** Sorted by name in each folder; a folder's content follows it. */
function byParts(a: FileEntry, b: FileEntry): number {
  const [left, right] = [a.path.split('/'), b.path.split('/')]
  const at = left.findIndex((part, index) => part !== right[index])
  if (at === -1 || at >= right.length) return left.length - right.length
  return left[at]! < right[at]! ? -1 : 1
}

function depthOf({ query }: Call): number {
  const { depth } = query
  if (depth === undefined) return 1
  const value = typeof depth === 'string' && /^\d{1,6}$/.test(depth) ? Number(depth) : 0
  if (value >= 1) return value
  throw new SandboxError('invalid_argument', 'depth must be at least 1.', { hint: 'Use 1 or more.' })
}
