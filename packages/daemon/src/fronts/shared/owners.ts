import type { FileStat } from '@sandkasten/sdk'
import type { Used } from '../../sessions/index.ts'

type Files = Used['sandbox']['files']

/** Larger account files are not read, and owners are shown as numbers. */
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

/** Parses lines of `name:x:number:…`. The file comes from the sandbox, so it may have any content or be missing. */
async function namesIn(files: Files, file: string, signal?: AbortSignal): Promise<Map<string, string>> {
  const text = await files.readFile(file, { maxBytes: mostBytes, signal }).then(
    (bytes) => Buffer.from(bytes).toString(),
    () => '',
  )
  const names = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [name, , id] = line.split(':')
    // The first entry of an id counts, as in the C library.
    if (name && name.length <= 100 && id && !names.has(id)) names.set(id, name)
  }
  return names
}
