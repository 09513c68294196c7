import { SandboxError } from '@sandkasten/sdk'

/** Parses `Range: bytes=…`; the end is exclusive. A request for several ranges gets the whole file. */
export function byteRange(
  header: string | undefined,
  size: number,
): { start: number; end: number } | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? '')
  if (!match || (match[1] === '' && match[2] === '')) return undefined
  const last = match[1] === '' ? size - 1 : Math.min(match[2] === '' ? size - 1 : Number(match[2]), size - 1)
  const start = match[1] === '' ? Math.max(0, size - Number(match[2])) : Number(match[1])
  if (start <= last) return { start, end: last + 1 }
  throw new SandboxError('invalid_argument', `The range ${header} is not in a file of ${size} bytes.`, {
    hint: 'Request a range within the file, or leave Range out.',
    details: { size },
  })
}
