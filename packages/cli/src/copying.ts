import { lstat, readdir } from 'node:fs/promises'
import path from 'node:path'
import { Transform } from 'node:stream'
import { type Meter, sizeText } from './progress.ts'

/** What a `cp` did. */
export interface Copied {
  files: number
  bytes: number
  skipped: string[]
}

export function copiedText({ files, bytes }: Copied): string {
  return `${files} file${files === 1 ? '' : 's'}, ${sizeText(bytes)}`
}

export interface Place {
  /** The name or id before the colon; undefined: a path of this machine. */
  name?: string
  path: string
}

export function placeOf(text: string): Place {
  // Parsed as `scp` parses hosts: a slash before the colon makes it a local path. A single letter is a drive.
  const match = /^([^/\\:]{2,200}):(.*)$/s.exec(text)
  return match ? { name: match[1]!, path: match[2]! || '.' } : { path: text }
}

/** Passes bytes on and counts them. */
export function counting(meter: Meter): Transform {
  return new Transform({
    transform(chunk: Buffer, _, done) {
      meter.add(chunk.length)
      done(null, chunk)
    },
  })
}

/** The size of a folder as a tar archive: a header for each entry, and contents in blocks of 512 bytes. */
export async function tarSize(folder: string): Promise<number> {
  let total = 1024
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    total += 512
    if (!entry.isFile()) continue
    const { size } = await lstat(path.join(entry.parentPath, entry.name)).catch(() => ({ size: 0 }))
    total += Math.ceil(size / 512) * 512
  }
  return total
}
