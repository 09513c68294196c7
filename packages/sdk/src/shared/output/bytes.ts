import type { Bytes, BytesSource } from '../../spec/index.ts'

const encoder = new TextEncoder()

export function encode(data: string | Uint8Array): Uint8Array {
  return typeof data === 'string' ? encoder.encode(data) : data
}

/** Joins chunks. On Node the result is a Buffer. */
export function concat(chunks: readonly Uint8Array[]): Bytes {
  const size = chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0)
  const all = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.byteLength
  }
  return asBytes(all)
}

/** A view of the same memory with a `toString()` that decodes. */
export function asBytes(data: Uint8Array<ArrayBuffer>): Bytes {
  const NodeBuffer = (globalThis as { Buffer?: { from(b: ArrayBuffer, o: number, n: number): Bytes } }).Buffer
  if (NodeBuffer) return NodeBuffer.from(data.buffer, data.byteOffset, data.byteLength)
  return Object.defineProperty(data, 'toString', { value: decodeAs }) as Bytes
}

function decodeAs(this: Uint8Array, encoding = 'utf8'): string {
  if (encoding === 'hex') return Array.from(this, (byte) => byte.toString(16).padStart(2, '0')).join('')
  if (encoding === 'latin1' || encoding === 'base64') {
    const latin1 = Array.from(this, (byte) => String.fromCharCode(byte)).join('')
    return encoding === 'base64' ? btoa(latin1) : latin1
  }
  return new TextDecoder().decode(this)
}

/** Yields any source in chunks of at most 64 KiB, pulled one by one. */
export async function* chunksOf(source: BytesSource): AsyncGenerator<Uint8Array> {
  if (typeof source === 'string' || source instanceof Uint8Array) {
    yield* slices(encode(source))
    return
  }
  for await (const chunk of iterate(source)) yield* slices(encode(chunk))
}

export function isBytesSource(value: unknown): value is BytesSource {
  if (typeof value === 'string' || value instanceof Uint8Array) return true
  if (typeof value !== 'object' || value === null) return false
  return Symbol.asyncIterator in value || 'getReader' in value
}

const chunkBytes = 64 * 1024

function* slices(data: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < data.byteLength; at += chunkBytes) yield data.subarray(at, at + chunkBytes)
}

/** Some browsers cannot iterate a ReadableStream. */
async function* iterate(
  source: Exclude<BytesSource, string | Uint8Array>,
): AsyncGenerator<Uint8Array | string> {
  if (Symbol.asyncIterator in source) {
    yield* source as AsyncIterable<Uint8Array | string>
    return
  }
  const reader = (source as ReadableStream<Uint8Array>).getReader()
  let finished = false
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) {
        finished = true
        return
      }
      yield value
    }
  } finally {
    if (!finished) await reader.cancel()
    reader.releaseLock()
  }
}

/**
 * A web stream that pulls from its source without reading ahead. Supports BYOB readers if the source has `readInto`.
 */
export function streamOf(
  chunks: AsyncIterable<Uint8Array> & Partial<ByteSource>,
): ReadableStream<Uint8Array> {
  if (isByteSource(chunks)) return byteStreamOf(chunks)
  const iterator = chunks[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await iterator.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      async cancel() {
        await iterator.return?.()
      },
    },
    { highWaterMark: 0 },
  )
}

/** Gives access to bytes without allocating memory for each chunk. */
export interface ByteSource {
  /** Fills the reader's memory. Returns the number of bytes; 0 at the end. */
  readInto(view: Uint8Array): Promise<number>
  /**
   * Lends each chunk to `take` until `done` is called, which limits the amount in flight. Resolves after the last
   * chunk or on cancellation.
   */
  lend(take: (piece: Uint8Array, done: () => void) => void): Promise<void>
  cancel(): void
}

function isByteSource(chunks: Partial<ByteSource>): chunks is ByteSource {
  return chunks.readInto !== undefined && chunks.lend !== undefined && chunks.cancel !== undefined
}

const sources = new WeakMap<ReadableStream<Uint8Array>, ByteSource>()

/**
 * Detaches the source from an unread stream of ours. A web stream costs more per chunk than the chunk itself.
 * The stream is unusable afterwards. Returns undefined for other streams.
 */
export function takeSource(stream: ReadableStream<Uint8Array>): ByteSource | undefined {
  const source = sources.get(stream)
  if (!source || stream.locked) return undefined
  stream.getReader()
  return source
}

function byteStreamOf(source: ByteSource): ReadableStream<Uint8Array> {
  const stream: ReadableStream<Uint8Array> = new ReadableStream({
    type: 'bytes',
    autoAllocateChunkSize: 65_536,
    async pull(controller) {
      const request = controller.byobRequest!
      const count = await source.readInto(request.view as Uint8Array)
      if (count === 0) controller.close()
      request.respond(count)
    },
    cancel() {
      source.cancel()
    },
  })
  sources.set(stream, source)
  return stream
}
