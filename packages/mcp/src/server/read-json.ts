import type { IncomingMessage } from 'node:http'

/** Returns the parsed body, or the reason why it cannot be used. */
export async function readJson(
  request: IncomingMessage,
  maxBytes: number,
): Promise<{ value: unknown } | { status: number; problem: string }> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.byteLength
    if (size > maxBytes) return { status: 413, problem: `The body is larger than ${maxBytes} bytes.` }
    chunks.push(chunk)
  }
  try {
    return { value: JSON.parse(Buffer.concat(chunks).toString('utf8')) }
  } catch {
    return { status: 400, problem: 'The body is not JSON.' }
  }
}
