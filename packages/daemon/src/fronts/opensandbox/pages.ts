import { SandboxError } from '@sandkasten/sdk'
import type { Call } from './entry.ts'

/** The requested page, by `page` and `pageSize`. */
export function pageOf<T>({ query }: Call, all: readonly T[]): { items: T[]; pagination: object } {
  const page = numberOf(query.page, 'page', 1, 1_000_000)
  const pageSize = numberOf(query.pageSize, 'pageSize', 20, 200)
  const totalPages = Math.ceil(all.length / pageSize)
  return {
    items: all.slice((page - 1) * pageSize, page * pageSize),
    pagination: { page, pageSize, totalItems: all.length, totalPages, hasNextPage: page < totalPages },
  }
}

/** The states in `state=A&state=B`; undefined means all. */
export function statesAsked({ query }: Call): string[] | undefined {
  return query.state === undefined ? undefined : [query.state].flat()
}

function numberOf(text: string | string[] | undefined, name: string, usual: number, most: number): number {
  if (text === undefined) return usual
  const value = typeof text === 'string' && /^\d{1,7}$/.test(text) ? Number(text) : 0
  if (value >= 1 && value <= most) return value
  throw new SandboxError('invalid_argument', `${name} must be from 1 to ${most}.`, {
    hint: 'Use a number in this range.',
  })
}
