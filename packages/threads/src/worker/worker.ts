import { setTimeout as wait } from 'node:timers/promises'
import { BeatWatch, stateOf, thisHolder } from '@sandkasten/registry/internal'
import type { Context } from '../context.ts'
import { Conversation } from '../conversations/conversation.ts'

export interface WorkerOptions {
  /** How often the database is read for what other processes have written. Default 1 s. */
  readonly lookMs: number
  readonly onError: (error: unknown) => void
}

const beatMs = 5_000
const pruneMs = 3_600_000

/**
 * The one process that works for an app. A process that cannot have the lease waits for it: it takes over at once if the
 * holder has died on this machine, and after 30 seconds of silence otherwise.
 */
export class Worker {
  readonly #context: Context
  readonly #options: WorkerOptions
  readonly onError: (error: unknown) => void
  readonly #closing = new AbortController()
  readonly #watch = new BeatWatch()
  #running: Promise<void> | undefined
  #term: Term | undefined

  constructor(context: Context, options: WorkerOptions) {
    this.#context = context
    this.#options = options
    this.onError = options.onError
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** The conversation of a thread, if this process works. */
  conversation(threadId: string): Conversation | undefined {
    return this.#term?.conversation(threadId)
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('The engine of threads closes.'))
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        const token = await this.#take()
        if (token === undefined) await wait(this.#options.lookMs, undefined, { signal })
        else await this.#work(token)
      } catch (error) {
        if (signal.aborted) return
        this.#options.onError(error)
        await wait(this.#options.lookMs * 2, undefined, { signal }).catch(() => {})
      }
    }
  }

  async #take(): Promise<number | undefined> {
    const { workers } = this.#context.store
    const seen = await workers.get()
    if (seen.holder !== null) {
      const state = await stateOf(seen.holder)
      const isSilent = this.#watch.isSilent('worker', `${seen.token} ${seen.beat}`)
      // A process on this machine that lives keeps its lease, however slow it is.
      if (state === 'alive' || (state === 'elsewhere' && !isSilent)) return undefined
    }
    return workers.take(await thisHolder(), seen)
  }

  async #work(token: number): Promise<void> {
    const term = new Term(this.#context, token, this.#options)
    this.#term = term
    const stop = () => term.stop()
    this.#closing.signal.addEventListener('abort', stop, { once: true })
    if (this.#closing.signal.aborted) stop()
    try {
      await term.run()
    } finally {
      this.#term = undefined
      this.#closing.signal.removeEventListener('abort', stop)
      await term.ended()
      await this.#context.store.workers.release(token).catch(this.#options.onError)
    }
  }
}

/** The time during which this process has the lease. */
class Term {
  readonly #context: Context
  readonly #token: number
  readonly #options: WorkerOptions
  readonly #over = new AbortController()
  readonly #conversations = new Map<string, Conversation>()
  readonly #open = new Map<string, string>()
  #beatAt = 0
  #prunedAt = 0

  constructor(context: Context, token: number, options: WorkerOptions) {
    this.#context = context
    this.#token = token
    this.#options = options
  }

  stop(): void {
    this.#over.abort(new Error('This process no longer works for these threads.'))
  }

  conversation(threadId: string): Conversation {
    const { onError } = this.#options
    const existing = this.#conversations.get(threadId)
    if (existing) return existing
    // Idle conversations have no state, so they can go.
    if (this.#conversations.size >= mostKept)
      for (const [id, one] of this.#conversations) if (!one.isRunning) this.#conversations.delete(id)
    const options = { token: this.#token, stopped: this.#over.signal, onError }
    const made = new Conversation(this.#context, threadId, options)
    this.#conversations.set(threadId, made)
    return made
  }

  async run(): Promise<void> {
    const { signal } = this.#over
    const { store, registry, spool } = this.#context
    try {
      await spool.sweep(new Set(await store.turns.openIds()))
      const due = registry.work({ signal }).catch((error: unknown) => {
        if (!signal.aborted) this.#options.onError(error)
      })
      while (!signal.aborted) {
        if (!(await this.#beat())) break
        await this.#look()
        await wait(this.#options.lookMs, undefined, { signal })
      }
      this.stop()
      await due
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      this.stop()
    }
  }

  async ended(): Promise<void> {
    await Promise.all([...this.#conversations.values()].map((one) => one.ended()))
  }

  async #beat(): Promise<boolean> {
    if (performance.now() - this.#beatAt < beatMs) return true
    this.#beatAt = performance.now()
    return this.#context.store.workers.beat(this.#token)
  }

  /** Wakes the conversations that have work. What this process itself has written wakes them at once. */
  async #look(): Promise<void> {
    const { store, now, limits } = this.#context
    const woken = new Set(await store.schedules.fire(now(), limits.queuedMessages))
    for (const { threadId, open, aborted } of await store.turns.openThreads()) {
      const seen = `${open} ${aborted}`
      if (this.#open.get(threadId) !== seen || !this.#conversations.get(threadId)?.isRunning)
        woken.add(threadId)
      this.#open.set(threadId, seen)
    }
    for (const ids of [store.threads.due(), store.notices.threads(), store.questions.answeredThreads()])
      for (const id of await ids) woken.add(id)
    for (const id of woken) void this.conversation(id).refresh().catch(this.#options.onError)
    if (performance.now() - this.#prunedAt < pruneMs && this.#prunedAt !== 0) return
    this.#prunedAt = performance.now()
    await store.turns.prune(now())
    await store.audit.prune(now())
  }
}

const mostKept = 10_000
