import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import type { LocalFile } from './scan.ts'

/** The hash of a file's content; undefined if the file is gone. */
export async function hashLocal(
  file: Pick<LocalFile, 'source'> & { size?: number },
  signal?: AbortSignal,
): Promise<string | undefined> {
  const hash = createHash('sha256')
  try {
    // Most files are small, and reading one at once is several times faster than a stream.
    if ((file.size ?? Infinity) <= 1024 * 1024)
      return hash.update(await readFile(file.source, { signal })).digest('hex')
    await pipeline(createReadStream(file.source, { highWaterMark: 256 * 1024 }), hash, { signal })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  return hash.digest('hex')
}
