import { EventEmitter, once } from 'node:events'
import { SandboxError } from '@sandkasten/sdk'
import type { Log } from '../log.ts'
import type { EventRow, Store } from '../store/index.ts'

export interface SessionEvent {
  readonly id: number
  readonly type: string
  readonly sessionId: string | undefined
  readonly data: Record<string, unknown>
  readonly createdAt: number
}

type Row = Parameters<Store['records']['addEvents']>[0][number]

/** Long enough for the response, and usually for the client's next request, to go first. */
const soonMs = 10
/** The most rows of one insert that every database accepts. */
const batch = 500

/**
 * Numbered events. They are written in order, so a reader that resumes after the last number it saw misses nothing.
 * Events are batched and written after the response is sent. A failed write is retried before the next one.
 */
export class EventBus {
  readonly #store: Store
  readonly #log: Log
  readonly #news = new EventEmitter().setMaxListeners(0)
  #waiting: Row[] = []
  #writing: Promise<void> | undefined
  #closed = false

  constructor(store: Store, log: Log) {
    this.#store = store
    this.#log = log
  }

  publish(event: {
    projectId: string
    sessionId?: string
    type: string
    data?: Record<string, unknown>
  }): void {
    this.#waiting.push({
      project_id: event.projectId,
      session_id: event.sessionId ?? null,
      type: event.type,
      data: JSON.stringify(event.data ?? {}),
      created_at: Date.now(),
    })
    this.#writing ??= this.#writeAll()
  }

  async list(
    projectId: string,
    options: { after: number; limit: number; sessionId?: string },
  ): Promise<SessionEvent[]> {
    const begin = await this.#store.records.eventsBegin()
    if (options.after > 0 && options.after < begin)
      throw new SandboxError(
        'gone',
        `Events after ${options.after} were dropped; the oldest kept is ${begin + 1}.`,
        {
          details: { after: options.after, oldest: begin + 1 },
          hint: 'List the sessions, then follow events without `after`.',
        },
      )
    const rows = await this.#store.records.events(projectId, options)
    return rows.map(eventOf)
  }

  last(): Promise<number> {
    return this.#store.records.lastEvent()
  }

  /** Ends only when the signal fires. */
  async *follow(
    projectId: string,
    options: { after: number; sessionId?: string; signal: AbortSignal },
  ): AsyncGenerator<SessionEvent> {
    let { after } = options
    while (!options.signal.aborted) {
      const news = once(this.#news, 'news', { signal: options.signal }).catch(() => {})
      const page = await this.list(projectId, { after, limit: 500, sessionId: options.sessionId })
      for (const event of page) {
        yield event
        after = event.id
      }
      if (page.length === 0) await Promise.race([news, this.#othersMayWrite(options.signal)])
    }
  }

  /** Polls, because other daemons on a shared database write events too. */
  #othersMayWrite(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (this.#store.kind !== 'postgres') return
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, 2_000)
      signal.addEventListener('abort', done)
    })
  }

  /** Resolves when everything published so far is written. */
  async flush(): Promise<void> {
    await this.#writing
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.race([this.#writing, new Promise((resolve) => setTimeout(resolve, 500).unref())])
  }

  async #writeAll(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, soonMs))
    while (this.#waiting.length > 0) await this.#write(this.#waiting.splice(0, batch))
    this.#writing = undefined
  }

  async #write(rows: readonly Row[]): Promise<void> {
    for (let waitMs = 50; ; waitMs = Math.min(waitMs * 2, 1000)) {
      try {
        await this.#store.records.addEvents(rows)
        this.#news.emit('news')
        return
      } catch (error) {
        if (this.#closed || !SandboxError.is(error, 'unavailable', 'disk_full')) {
          this.#log.error({ err: error, events: rows.length }, 'cannot write events')
          return
        }
      }
      await new Promise((resolve) => setTimeout(resolve, waitMs))
    }
  }
}

function eventOf(row: { id: number } & Omit<EventRow, 'id'>): SessionEvent {
  return {
    id: row.id,
    type: row.type,
    sessionId: row.session_id ?? undefined,
    data: JSON.parse(row.data),
    createdAt: row.created_at,
  }
}
