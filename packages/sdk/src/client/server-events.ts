import { throwIfAborted } from '../shared/calls/abort.ts'
import { lostError } from './http.ts'
import { errorOf, type Problem } from './problem.ts'

export interface ServerEvent {
  readonly event: string
  readonly id?: number
  // biome-ignore lint/suspicious/noExplicitAny: each stream has its own event type, which its reader names.
  readonly data: any
}

/**
 * The events of an SSE response. Nothing is read ahead of the consumer, so a slow consumer slows the sender. A `problem`
 * event is thrown. The iteration ends with the stream; the caller decides what that means.
 */
export async function* serverEvents(response: Response, signal?: AbortSignal): AsyncGenerator<ServerEvent> {
  const reader = response.body!.getReader()
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let rest = ''
  let ended = false
  const cancel = () => void reader.cancel(signal?.reason).catch(() => {})
  signal?.addEventListener('abort', cancel, { once: true })
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw lostError(error, signal)
      })
      throwIfAborted(signal, 'Reading the events')
      if (done) {
        ended = true
        return
      }
      const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n')
      rest = blocks.pop()!
      for (const block of blocks) {
        const event = parse(block)
        if (!event) continue
        if (event.event === 'problem') throw errorOf(event.data as Problem, event.data.status ?? 500)
        yield event
        throwIfAborted(signal, 'Reading the events')
      }
    }
  } finally {
    signal?.removeEventListener('abort', cancel)
    if (!ended) cancel()
  }
}

/** Parses one block of lines; undefined for a comment, which only keeps the connection alive. */
function parse(block: string): ServerEvent | undefined {
  let event = 'message'
  let id: number | undefined
  const data: string[] = []
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':')
    if (colon <= 0) continue
    const value = line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    const field = line.slice(0, colon)
    if (field === 'event') event = value
    else if (field === 'id') id = Number(value)
    else if (field === 'data') data.push(value)
  }
  if (data.length === 0) return undefined
  return { event, id, data: JSON.parse(data.join('\n')) }
}
