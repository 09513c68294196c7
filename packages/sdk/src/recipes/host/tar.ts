import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'

export interface TarItem {
  type: 'file' | 'symlink' | 'directory'
  path: string
  source?: string
  target?: string
  mode: number
  mtimeMs?: number
}

export interface TarEvents {
  /** Called for a packed file, with the hash of the bytes that were read. */
  onPacked?: (path: string, facts: { sha256: string; size: number }) => void
  /** Called for a file that could not be opened: it has disappeared or is not readable. */
  onMissed?: (path: string, reason: string) => void
}

/**
 * Writes a tar archive as a stream. Not the `tar` program, of which there are several: the output has no owner, no
 * xattrs and no `._` files, supports any name, is the same on every system, and hashes need no second read.
 * The format is GNU's (long names as `L` and `K` entries), because busybox skips pax headers.
 */
export async function* tarStream(
  items: Iterable<TarItem>,
  events: TarEvents = {},
): AsyncGenerator<Uint8Array> {
  for (const item of items) {
    if (item.type === 'file') yield* fileEntry(item, events)
    else yield* header(item, 0, item.type === 'symlink' ? '2' : '5')
  }
  yield new Uint8Array(1024)
}

async function* fileEntry(item: TarItem, { onPacked, onMissed }: TarEvents): AsyncGenerator<Uint8Array> {
  let handle: Awaited<ReturnType<typeof open>>
  try {
    handle = await open(item.source!, 'r')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') onMissed?.(item.path, 'it disappeared while the project was read')
    else if (code === 'EACCES' || code === 'EPERM') onMissed?.(item.path, 'this user may not read it')
    else throw error
    return
  }
  try {
    const { size } = await handle.stat()
    yield* header(item, size, '0')
    const hash = createHash('sha256')
    for (let at = 0; at < size; ) {
      const buffer = Buffer.allocUnsafe(Math.min(256 * 1024, size - at))
      const { bytesRead } = await handle.read(buffer, 0, buffer.byteLength, at)
      // The header has the size: a file that shrinks during the read is padded with zeros, as in every tar.
      const chunk = bytesRead === 0 ? buffer.fill(0) : buffer.subarray(0, bytesRead)
      hash.update(chunk)
      yield chunk
      at += chunk.byteLength
    }
    if (size % 512 !== 0) yield new Uint8Array(512 - (size % 512))
    onPacked?.(item.path, { sha256: hash.digest('hex'), size })
  } finally {
    await handle.close()
  }
}

function* header(item: TarItem, size: number, type: string): Generator<Uint8Array> {
  const name = Buffer.from(`./${item.path}${item.type === 'directory' ? '/' : ''}`)
  const target = Buffer.from(item.target ?? '')
  if (target.byteLength > 100) yield* longEntry('K', target)
  if (name.byteLength > 100) yield* longEntry('L', name)
  yield block({
    name,
    target,
    mode: item.mode,
    size,
    mtime: Math.max(0, Math.floor((item.mtimeMs ?? 0) / 1000)),
    type,
  })
}

function* longEntry(type: string, value: Buffer): Generator<Uint8Array> {
  const size = value.byteLength + 1
  yield block({
    name: Buffer.from('././@LongLink'),
    target: Buffer.alloc(0),
    mode: 0o644,
    size,
    mtime: 0,
    type,
  })
  yield Buffer.concat([value, Buffer.alloc(Math.ceil(size / 512) * 512 - value.byteLength)])
}

function block(fields: {
  name: Buffer
  target: Buffer
  mode: number
  size: number
  mtime: number
  type: string
}): Uint8Array {
  const bytes = Buffer.alloc(512)
  fields.name.copy(bytes, 0, 0, 100)
  octal(bytes, 100, 8, fields.mode & 0o7777)
  octal(bytes, 108, 8, 0)
  octal(bytes, 116, 8, 0)
  octal(bytes, 124, 12, fields.size)
  octal(bytes, 136, 12, fields.mtime)
  bytes.write('        ', 148, 'latin1')
  bytes.write(fields.type, 156, 'latin1')
  fields.target.copy(bytes, 157, 0, 100)
  bytes.write('ustar  \0', 257, 'latin1')
  let sum = 0
  for (const byte of bytes) sum += byte
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return bytes
}

function octal(bytes: Buffer, at: number, width: number, value: number): void {
  const text = value.toString(8)
  if (text.length < width) {
    bytes.write(`${text.padStart(width - 1, '0')}\0`, at, 'latin1')
    return
  }
  // GNU's base-256 form, for files of 8 GiB and more.
  bytes[at] = 0x80
  bytes.writeBigUInt64BE(BigInt(value), at + width - 8)
}
