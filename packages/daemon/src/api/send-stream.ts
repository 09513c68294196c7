import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { FastifyReply } from 'fastify'

/**
 * Sends bytes as they come. The first chunk is awaited, so that what fails at once is answered with its status; a failure
 * later cuts the connection, and the client sees that the answer is not whole.
 */
export async function sendStream(reply: FastifyReply, stream: Readable, length?: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    stream.once('readable', resolve)
    stream.once('end', resolve)
    stream.once('error', reject)
  })
  reply.hijack()
  const { raw } = reply
  const headers = Object.entries(reply.getHeaders()).filter(([, value]) => value !== undefined)
  raw.writeHead(reply.statusCode, {
    ...(Object.fromEntries(headers) as Record<string, string>),
    ...(length === undefined ? {} : { 'content-length': length }),
    'x-request-id': reply.request.id,
  })
  await pipeline(stream, raw).catch(() => raw.destroy())
}
