import { basename, dirname } from 'node:path'
import { Readable } from 'node:stream'
import type { Files } from '../stages/stage.ts'
import type { DockerApi } from './docker-api.ts'

export function dockerFiles(api: DockerApi, id: string, close: () => Promise<unknown>): Files {
  const archive = (path: string) => `/containers/${id}/archive?path=${encodeURIComponent(path)}`
  return {
    async write(path, chunks, bytes) {
      const tar = Readable.from(tarOf(basename(path), chunks, bytes), { objectMode: false })
      await api.call('PUT', archive(dirname(path)), tar, 'application/x-tar')
    },
    read: (path) => api.open('GET', archive(path)),
    close,
  }
}

async function* tarOf(
  name: string,
  chunks: AsyncIterable<Uint8Array>,
  bytes: number,
): AsyncGenerator<Uint8Array> {
  const header = Buffer.alloc(512)
  const octal = (value: number, width: number) => `${value.toString(8).padStart(width - 1, '0')}\0`
  header.write(name, 0)
  header.write(octal(0o644, 8), 100)
  header.write(octal(0, 8) + octal(0, 8), 108)
  header.write(octal(bytes, 12) + octal(0, 12), 124)
  header.write('        0', 148)
  header.write('ustar\x0000', 257)
  header.write(
    octal(
      header.reduce((sum, byte) => sum + byte, 0),
      7,
    ),
    148,
  )
  yield header
  yield* chunks
  yield Buffer.alloc(((512 - (bytes % 512)) % 512) + 1024)
}
