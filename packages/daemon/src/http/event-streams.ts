import type { ServerResponse } from 'node:http'
import { SandboxError } from '@sandkasten/sdk'
import type { FastifyReply } from 'fastify'
import type { Caller, KeyRing } from '../keys/index.ts'
import type { Metrics } from '../metrics.ts'
import { problemOf, translate } from './problems.ts'

const heartbeatMs = 15_000
/** How long the head waits for the first event. */
const headMs = 100

export interface ServerEvent {
  event: string
  id?: number
  data: unknown
}

/** Long responses: counts them, keeps them alive, and ends them with their key or with the daemon. */
export class Streams {
  readonly #open = new Set<AbortController>()
  readonly #keys: KeyRing

  constructor(metrics: Metrics, keys: KeyRing) {
    this.#keys = keys
    metrics.onRead(() => metrics.set('sandkasten_open_streams', {}, this.#open.size))
  }

  /**
   * `signal` fires when the daemon stops, or the caller's key is no longer valid. Call `leave` at the end of the
   * stream.
   */
  enter(caller?: Caller): { signal: AbortSignal; leave: () => void } {
    const controller = new AbortController()
    this.#open.add(controller)
    const key = caller && this.#keys.watch.enter(caller)
    return {
      signal: key ? AbortSignal.any([controller.signal, key.signal]) : controller.signal,
      leave: () => {
        this.#open.delete(controller)
        key?.leave()
      },
    }
  }

  /**
   * Sends server-sent events. The head waits briefly for the first event, so that an immediate failure gets its HTTP
   * status. A later failure becomes the event `problem` and ends the stream. `broken` replaces that event, and is also
   * sent when the daemon stops.
   */
  async send(
    reply: FastifyReply,
    source: (signal: AbortSignal) => AsyncIterable<ServerEvent>,
    gone: AbortSignal,
    broken?: (error: SandboxError) => ServerEvent,
  ): Promise<void> {
    const { signal, leave } = this.enter(reply.request.caller)
    const ending = AbortSignal.any([signal, gone])
    const events = source(ending)[Symbol.asyncIterator]()
    const requestId = reply.request.id
    try {
      const first = events.next()
      let failure: { error: unknown } | undefined
      const settled = first.then(
        () => {},
        (error: unknown) => {
          failure = { error }
        },
      )
      await Promise.race([settled, new Promise((resolve) => setTimeout(resolve, headMs))])
      if (failure) throw failure.error
      const { raw } = reply
      beginStream(reply, 'text/event-stream')
      const failed = (error: unknown): ServerEvent | undefined => {
        if (gone.aborted || (signal.aborted && !broken)) return undefined
        if (broken) return broken(signal.aborted ? endedBy(signal) : translate(error))
        if (SandboxError.is(error, 'aborted')) return undefined
        return { event: 'problem', data: problemOf(error, requestId) }
      }
      await this.#pump(raw, events, first, ending, failed)
    } finally {
      leave()
    }
  }

  /** Ends all streams, and waits a short time for their last messages. */
  async close(): Promise<void> {
    for (const controller of this.#open) controller.abort(daemonEnding())
    const startedAt = performance.now()
    while (this.#open.size > 0 && performance.now() - startedAt < 500)
      await new Promise((resolve) => setTimeout(resolve, 5))
  }

  async #pump(
    raw: ServerResponse,
    events: AsyncIterator<ServerEvent>,
    first: Promise<IteratorResult<ServerEvent>>,
    ending: AbortSignal,
    failed: (error: unknown) => ServerEvent | undefined,
  ): Promise<void> {
    // No heartbeat for a client that does not read: it would only fill the buffer.
    const beat = setInterval(() => raw.writableNeedDrain || raw.write(': still here\n\n'), heartbeatMs)
    const over = new Promise<undefined>((resolve) =>
      ending.addEventListener('abort', () => resolve(undefined), { once: true }),
    )
    try {
      for (let next: Promise<IteratorResult<ServerEvent>> = first; ; next = events.next()) {
        next.catch(() => {})
        const result = ending.aborted ? undefined : await Promise.race([next, over])
        if (!result) throw endedBy(ending)
        if (result.done) return
        if (!raw.write(encode(result.value))) await Promise.race([drained(raw), over])
      }
    } catch (error) {
      const last = failed(error)
      if (last) raw.write(encode(last))
    } finally {
      clearInterval(beat)
      void Promise.resolve(events.return?.()).catch(() => {})
      await new Promise<void>((resolve) =>
        raw.destroyed ? resolve() : raw.end(resolve).once('close', resolve),
      )
    }
  }
}

/** Sends the head of a long response, with the headers of every response. The caller then writes to `raw`. */
export function beginStream(reply: FastifyReply, contentType: string): void {
  reply.hijack()
  const headers = Object.entries(reply.getHeaders()).filter(([, value]) => value !== undefined)
  reply.raw.writeHead(200, {
    ...(Object.fromEntries(headers) as Record<string, string>),
    'content-type': contentType,
    'x-accel-buffering': 'no',
  })
  reply.raw.flushHeaders()
}

/** Why a long response is cut off: the daemon stops, or the key is no longer valid. */
export function endedBy({ reason }: AbortSignal): SandboxError {
  return SandboxError.is(reason) ? reason : daemonEnding()
}

function daemonEnding(): SandboxError {
  return new SandboxError('unavailable', 'The daemon is stopping.', { hint: 'Try again in a moment.' })
}

export function encode({ event, id, data }: ServerEvent): string {
  // JSON has no raw newlines, so one data line is enough.
  return `event: ${event}\n${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`
}

/** Resolves when the response can take more data, or is closed. */
export function drained(raw: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      raw.off('drain', done)
      raw.off('close', done)
      resolve()
    }
    raw.on('drain', done)
    raw.on('close', done)
  })
}
