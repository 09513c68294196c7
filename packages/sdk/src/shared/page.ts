import { SandboxError } from '../errors.ts'
import type { ListSandboxesOpts, SandboxInfo, SandboxPage } from '../spec/index.ts'

/** Filters, sorts and pages a complete list. The cursor is the last id of the previous page. */
export function pageOf(infos: readonly SandboxInfo[], options: ListSandboxesOpts): SandboxPage {
  const matching = infos
    .filter((info) => matches(info, options))
    .sort((a, b) => (a.createdAt?.getTime() ?? 0) - (b.createdAt?.getTime() ?? 0) || (a.id < b.id ? -1 : 1))
  if (options.limit === undefined && options.cursor === undefined) return matching
  let start = 0
  if (options.cursor !== undefined) {
    const [createdAt, id] = decodeCursor(options.cursor)
    start = matching.findIndex(
      (info) =>
        (info.createdAt?.getTime() ?? 0) > createdAt ||
        ((info.createdAt?.getTime() ?? 0) === createdAt && info.id > id),
    )
    if (start === -1) return []
  }
  const page: SandboxPage = matching.slice(start, start + (options.limit ?? matching.length))
  const last = page.at(-1)
  if (last && start + page.length < matching.length)
    page.nextCursor = `${last.createdAt?.getTime() ?? 0}/${last.id}`
  return page
}

export function matches(info: SandboxInfo, { labels, status, name }: ListSandboxesOpts): boolean {
  if (name !== undefined && info.name !== name) return false
  if (status !== undefined && !(Array.isArray(status) ? status : [status]).includes(info.status)) return false
  return Object.entries(labels ?? {}).every(([key, value]) => info.labels[key] === value)
}

function decodeCursor(cursor: string): [createdAt: number, id: string] {
  const match = /^(\d+)\/(.+)$/s.exec(cursor)
  if (!match)
    throw new SandboxError('invalid_argument', 'The cursor did not come from list().', {
      hint: 'Pass page.nextCursor unchanged.',
    })
  return [Number(match[1]), match[2]!]
}
