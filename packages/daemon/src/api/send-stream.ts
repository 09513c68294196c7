import type { ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'

/**
 * Sends bytes as they come. The first chunk is awaited, so that what fails at once is answered with its status; a failure
 * later cuts the connection, and the client sees that the answer is not whole.
 *
 * Written out, because a pipeline of streams costs more for each chunk than the chunk itself.
 */
export async function sendStream(
  reply: FastifyReply,
  source: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>,
  length?: number,
): Promise<void> {
  const reader = 'getReader' in source ? source.getReader() : undefined
  const iterator = reader ? undefined : (source as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
  const next = () => (reader ? reader.read() : iterator!.next()) as Promise<IteratorResult<Uint8Array>>
  let chunk = await next()
  reply.hijack()
  const { raw } = reply
  const headers = Object.entries(reply.getHeaders()).filter(([, value]) => value !== undefined)
  raw.writeHead(reply.statusCode, {
    ...(Object.fromEntries(headers) as Record<string, string>),
    ...(length === undefined ? {} : { 'content-length': length }),
    'x-request-id': reply.request.id,
  })
  try {
    for (; !chunk.done && !raw.destroyed; chunk = await next()) if (!raw.write(chunk.value)) await roomIn(raw)
    if (chunk.done) raw.end()
  } catch {
    raw.destroy()
  } finally {
    // Whoever has gone away wants no more of it.
    if (!chunk.done) await (reader ? reader.cancel() : iterator!.return?.())
  }
}

/** Resolves when the client has taken some, or is gone. */
function roomIn(raw: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      raw.off('drain', settle)
      raw.off('close', settle)
      resolve()
    }
    raw.on('drain', settle)
    raw.on('close', settle)
    if (raw.destroyed) settle()
  })
}
