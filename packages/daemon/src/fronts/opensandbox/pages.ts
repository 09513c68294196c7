import { SandboxError } from '@sandkasten/sdk'
import type { Call } from './desk.ts'

const batch = 500

/** All that a store lists, a batch at a time. Pages here are numbered and say how many there are, so all are looked at. */
export async function everything<T extends { created_at: number; id: string }>(
  list: (options: { limit: number; after?: { createdAt: number; id: string } }) => Promise<T[]>,
): Promise<T[]> {
  const all: T[] = []
  for (;;) {
    const last = all.at(-1)
    const after = last ? { after: { createdAt: last.created_at, id: last.id } } : {}
    const some = await list({ limit: batch, ...after })
    all.push(...some)
    if (some.length < batch) return all
  }
}

/** The part that `page` and `pageSize` ask for. */
export function pageOf<T>({ query }: Call, all: readonly T[]): { items: T[]; pagination: object } {
  const page = numberOf(query.page, 'page', 1, 1_000_000)
  const pageSize = numberOf(query.pageSize, 'pageSize', 20, 200)
  const totalPages = Math.ceil(all.length / pageSize)
  return {
    items: all.slice((page - 1) * pageSize, page * pageSize),
    pagination: { page, pageSize, totalItems: all.length, totalPages, hasNextPage: page < totalPages },
  }
}

/** `state=A&state=B`; undefined: all. */
export function statesAsked({ query }: Call): string[] | undefined {
  return query.state === undefined ? undefined : [query.state].flat()
}

function numberOf(text: string | string[] | undefined, name: string, usual: number, most: number): number {
  if (text === undefined) return usual
  const value = typeof text === 'string' && /^\d{1,7}$/.test(text) ? Number(text) : 0
  if (value >= 1 && value <= most) return value
  throw new SandboxError('invalid_argument', `${name} must be from 1 to ${most}.`, { hint: 'Correct it.' })
}
