import { SandboxError } from '@sandkasten/sdk'

/** The position after this row in a list, newest first, as an opaque text. */
export function cursorOf(row: { created_at: number; id: string }): string {
  return Buffer.from(`${row.created_at}/${row.id}`).toString('base64url')
}

export function placeOf(cursor: string | undefined): { createdAt: number; id: string } | undefined {
  if (cursor === undefined) return undefined
  const match = /^(\d+)\/([a-z0-9]+)$/.exec(Buffer.from(cursor, 'base64url').toString())
  if (match) return { createdAt: Number(match[1]), id: match[2]! }
  throw new SandboxError('invalid_argument', 'The cursor is not valid.', {
    hint: 'Pass the cursor exactly as the list returned it.',
  })
}
