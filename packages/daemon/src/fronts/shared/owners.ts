import type { FileStat } from '@sandkasten/sdk'
import type { Used } from '../../sessions/index.ts'

type Files = Used['sandbox']['files']

/** Larger files of accounts are not read: then owners are numbers. */
const mostBytes = 1_048_576

/** Names of files' owners, as the sandbox defines them. An id without a name is a number; an unknown owner is `''`. */
export interface Owners {
  ownerOf(stat: FileStat): string
  groupOf(stat: FileStat): string
}

export async function ownersIn(files: Files, signal?: AbortSignal): Promise<Owners> {
  const [users, groups] = await Promise.all(
    ['/etc/passwd', '/etc/group'].map((file) => namesIn(files, file, signal)),
  )
  const named = (names: Map<string, string>, id: number | undefined) =>
    id === undefined ? '' : (names.get(String(id)) ?? String(id))
  return {
    ownerOf: ({ uid }) => named(users!, uid),
    groupOf: ({ gid }) => named(groups!, gid),
  }
}

/** Names by number, of `name:x:number:…`. The sandbox may have written anything there, or nothing. */
async function namesIn(files: Files, file: string, signal?: AbortSignal): Promise<Map<string, string>> {
  const text = await files.readFile(file, { maxBytes: mostBytes, signal }).then(
    (bytes) => Buffer.from(bytes).toString(),
    () => '',
  )
  const names = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [name, , id] = line.split(':')
    // As the C library does: the first one counts.
    if (name && name.length <= 100 && id && !names.has(id)) names.set(id, name)
  }
  return names
}
