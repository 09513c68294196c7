import type { FastifyReply } from 'fastify'
import { beginStream, drained } from '../../http/event-streams.ts'
import type { Entry } from './entry.ts'

const beatMs = 15_000

/**
 * Sends lines of JSON. The SDK compares the content type exactly, and decodes each network chunk as text of its own, so
 * the output is plain ASCII. The SDK skips blank lines; they keep a silent connection alive.
 */
export async function sendLines(
  entry: Entry,
  reply: FastifyReply,
  gone: AbortSignal,
  source: (ending: AbortSignal) => AsyncIterable<unknown>,
): Promise<void> {
  const { signal, leave } = entry.services.streams.enter(reply.request.caller)
  const ending = AbortSignal.any([signal, gone])
  const { raw } = reply
  beginStream(reply, 'application/x-ndjson')
  // No heartbeat for a client that does not read: it would only fill the buffer.
  const beat = setInterval(() => raw.writableNeedDrain || raw.write('\n'), beatMs)
  const over = new Promise<'over'>((resolve) => {
    if (ending.aborted) resolve('over')
    ending.addEventListener('abort', () => resolve('over'), { once: true })
  })
  const lines = source(ending)[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = lines.next()
      next.catch(() => {})
      const result = await Promise.race([next, over])
      // The daemon stops or the source failed: cut the connection, so that the client sees an incomplete response.
      if (result === 'over') return void raw.destroy()
      if (result.done) break
      if (!raw.write(`${ascii(result.value)}\n`)) await Promise.race([drained(raw), over])
    }
  } catch {
    raw.destroy()
  } finally {
    clearInterval(beat)
    void Promise.resolve(lines.return?.()).catch(() => {})
    if (!raw.destroyed) raw.end()
    leave()
  }
}

export function ascii(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
