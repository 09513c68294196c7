import type { ServerResponse } from 'node:http'
import { takeSource } from '@sandkasten/sdk/provider'
import type { FastifyReply } from 'fastify'

const blockBytes = 256 * 1024
const blocks = 3

/**
 * Sends bytes as they come. The first of them are awaited, so that what fails at once is answered with its status; a failure
 * later cuts the connection, and the client sees that the answer is not whole.
 */
export async function sendStream(
  reply: FastifyReply,
  source: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>,
  length?: number,
): Promise<void> {
  const { raw } = reply
  const chunks = 'getReader' in source ? fromStream(source, raw) : fromIterable(source, raw)
  let chunk = await chunks.next()
  reply.hijack()
  const headers = Object.entries(reply.getHeaders()).filter(([, value]) => value !== undefined)
  raw.writeHead(reply.statusCode, {
    ...(Object.fromEntries(headers) as Record<string, string>),
    ...(length === undefined ? {} : { 'content-length': length }),
    'x-request-id': reply.request.id,
  })
  try {
    for (; chunk !== undefined && !raw.destroyed; chunk = await chunks.next()) await chunks.write(chunk)
    if (chunk === undefined) raw.end()
  } catch {
    raw.destroy()
  } finally {
    // Whoever has gone away wants no more of it.
    if (chunk !== undefined) await chunks.leave()
  }
}

/** Where chunks come from, and how they are written: by whom their memory is. Written out, because a pipeline of streams costs more for each chunk than the chunk itself. */
interface Chunks {
  next(): Promise<Uint8Array | undefined>
  /** Resolves when the next one may be asked for. */
  write(chunk: Uint8Array): Promise<void>
  leave(): Promise<unknown>
}

function fromIterable(source: AsyncIterable<Uint8Array>, raw: ServerResponse): Chunks {
  const iterator = source[Symbol.asyncIterator]()
  return {
    async next() {
      const { done, value } = await iterator.next()
      return done ? undefined : value
    },
    async write(chunk) {
      if (!raw.write(chunk)) await change(raw, 'drain')
    },
    leave: async () => iterator.return?.(),
  }
}

/** Into a few blocks of our own, each used again when the client has taken it: so a file of any size costs these blocks, and no garbage. */
function fromStream(stream: ReadableStream<Uint8Array>, raw: ServerResponse): Chunks {
  const source = takeSource(stream)
  if (!source) return fromIterable(stream as unknown as AsyncIterable<Uint8Array>, raw)
  let made = 0
  let block: Uint8Array = new Uint8Array()
  const free: Uint8Array[] = []
  return {
    async next() {
      block = free.pop() ?? new Uint8Array(blockBytes)
      made += 1
      const count = await source.readInto(block)
      return count === 0 ? undefined : block.subarray(0, count)
    },
    async write(chunk) {
      const written = block
      raw.write(chunk, () => {
        made -= 1
        free.push(written)
        raw.emit(taken)
      })
      while (made >= blocks && !raw.destroyed) await change(raw, taken)
    },
    leave: async () => source.cancel?.(),
  }
}

const taken = Symbol('a block was taken')

/** Resolves when this happens, or the client is gone. */
function change(raw: ServerResponse, event: string | symbol): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      raw.off(event, settle)
      raw.off('close', settle)
      resolve()
    }
    raw.on(event, settle)
    raw.on('close', settle)
    if (raw.destroyed) settle()
  })
}
