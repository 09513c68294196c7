import { setTimeout as wait } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import { release } from '../lifecycle/release.ts'
import type { AgentModel } from '../spec/agent.ts'
import type { ThreadRow, TurnRow } from '../store/index.ts'
import { problemOf, textOf } from '../words.ts'
import { answerOf, isEnd } from './answers.ts'
import { Display } from './display.ts'
import { type Live, openLive } from './live.ts'
import { Questions } from './questions.ts'
import { untilShown } from './retry.ts'
import { servicesOf } from './services.ts'
import { Steps } from './steps.ts'
import { runTurn } from './turn.ts'

/**
 * Does the due work of one thread, one thing after another: its messages in their order, and then what its sandbox needs.
 * Everything is read from the database, so another process can continue at any instant.
 */
export class Conversation {
  readonly #context: Context
  readonly #token: number
  readonly #threadId: string
  readonly #stopped: AbortSignal
  readonly #onError: (error: unknown) => void
  readonly #questions: Questions
  readonly #services: ReturnType<typeof servicesOf>
  readonly #displays = new Map<string, Display>()
  /** Queued turns that are shown as such. */
  readonly #shownQueue = new Set<string>()
  /** The turn that is shown as the present one. */
  #current: string | undefined
  #steps = new Steps(() => {})
  #live: Live | undefined
  #aborting = new AbortController()
  #running: Promise<void> | undefined
  #isWoken = false

  constructor(
    context: Context,
    threadId: string,
    options: { token: number; stopped: AbortSignal; onError: (error: unknown) => void },
  ) {
    const { token, stopped, onError } = options
    this.#context = context
    this.#threadId = threadId
    this.#token = token
    this.#stopped = stopped
    this.#onError = onError
    this.#questions = new Questions(context, threadId, stopped)
    this.#services = servicesOf(context, { threadId, token, signal: stopped, questions: this.#questions })
  }

  get isRunning(): boolean {
    return this.#running !== undefined
  }

  /** Looks for work. Returns at once. */
  wake(): void {
    this.#isWoken = true
    if (this.#running || this.#stopped.aborted) return
    this.#running = this.#run().finally(() => {
      this.#running = undefined
      if (this.#isWoken && !this.#stopped.aborted) this.wake()
    })
  }

  /** Reads what users have done meanwhile: new messages, aborts, replies. */
  async refresh(): Promise<void> {
    if (!this.#running) return this.wake()
    this.#isWoken = true
    const open = await this.#context.store.turns.open(this.#threadId)
    if (open[0]?.is_aborted === 1)
      this.#aborting.abort(new SandboxError('aborted', 'The answer was aborted.'))
    if (open[0]?.id === this.#current) this.#showQueue(open.slice(1))
    this.#questions.changed()
    if (this.#live) await this.#questions.deliver(this.#live.agent)
    await this.#questions.settleAnswered()
  }

  /** Ends what runs here, such as when the thread is gone. */
  interrupt(): void {
    this.#aborting.abort(new SandboxError('aborted', 'The conversation has ended.'))
  }

  async models(): Promise<readonly AgentModel[]> {
    if (this.#live) return this.#live.agent.models()
    const { token, signal } = { token: this.#token, signal: this.#stopped }
    const steps = new Steps(() => {})
    const options = { token, signal, steps, services: this.#services }
    await using live = await openLive(this.#context, this.#threadId, options)
    return await live.agent.models({ signal })
  }

  /** Resolves when nothing runs any more. */
  async ended(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    let failures = 0
    try {
      for (;;) {
        this.#stopped.throwIfAborted()
        this.#isWoken = false
        try {
          if (!(await this.#next())) return
          failures = 0
        } catch (error) {
          // Another process has taken over, or this one closes.
          if (this.#stopped.aborted || SandboxError.is(error, 'conflict')) throw error
          // The database is away, or a defect; both must not end the thread.
          this.#onError(error)
          failures += 1
          await wait(Math.min(this.#context.retryMs * 2 ** failures, 60_000), undefined, {
            signal: this.#stopped,
          })
        }
      }
    } catch (error) {
      if (!this.#stopped.aborted) this.#onError(error)
    } finally {
      await this.#drop().catch(this.#onError)
    }
  }

  /** False: nothing is left to do. */
  async #next(): Promise<boolean> {
    const { store } = this.#context
    await this.#sendNotices()
    const [turn, ...queue] = await store.turns.open(this.#threadId)
    if (turn) {
      // Its post comes before those of the queue.
      if (!isEnd(turn.state)) this.#displayOf(turn.id).set(answerOf(turn, { state: 'preparing' }))
      this.#current = turn.id
      this.#showQueue(queue)
      await this.#turn(turn)
      return true
    }
    await this.#drop()
    await this.#questions.end('The answer has ended.')
    const thread = await store.threads.get(this.#threadId)
    if (thread?.due === 1) {
      await this.#due(thread)
      return true
    }
    return this.#isWoken
  }

  async #turn(turn: TurnRow): Promise<void> {
    this.#aborting = new AbortController()
    if (turn.is_aborted === 1) this.#aborting.abort(new SandboxError('aborted', 'The answer was aborted.'))
    const display = this.#displayOf(turn.id)
    const steps = new Steps(() => {
      if (!this.#stopped.aborted && !isWorking)
        display.set(answerOf(turn, { state: 'preparing', blocks: steps.blocks }))
    })
    let isWorking = false
    this.#steps = steps
    this.#services.newAnswer()
    await runTurn(turn, {
      context: this.#context,
      token: this.#token,
      display,
      questions: this.#questions,
      steps,
      aborted: this.#aborting.signal,
      stopped: this.#stopped,
      live: async (signal) => {
        isWorking = false
        const live = await this.#open(signal)
        isWorking = true
        await this.#sendNotices()
        return live
      },
      drop: () => this.#drop(),
      retitle: (title) => this.#retitle(title),
    })
    this.#displays.delete(turn.id)
    this.#shownQueue.delete(turn.id)
  }

  async #open(signal: AbortSignal): Promise<Live> {
    const thread = await this.#context.store.threads.get(this.#threadId)
    const isSame =
      this.#live?.hold.signal.aborted === false && this.#live.agent.sessionId === thread?.session_id
    if (this.#live && isSame) return this.#live
    await this.#drop()
    const { steps, services, token } = { steps: this.#steps, services: this.#services, token: this.#token }
    try {
      this.#live = await openLive(this.#context, this.#threadId, { token, signal, steps, services })
    } catch (error) {
      if (!signal.aborted) await this.#noteFailure(error)
      throw error
    }
    return this.#live
  }

  /** A thread that has no sandbox yet tries again with its next message. */
  async #noteFailure(error: unknown): Promise<void> {
    const { message, hint } = problemOf(error)
    const changes = { state: 'failed' as const, error_message: message, error_hint: hint ?? null, due: 0 }
    await this.#context.store.threads.update(this.#threadId, changes, this.#context.now(), {
      token: this.#token,
      from: ['pending', 'failed'],
    })
  }

  async #drop(): Promise<void> {
    const live = this.#live
    this.#live = undefined
    await live?.[Symbol.asyncDispose]()
  }

  /** Work that belongs to no message. */
  async #due(thread: ThreadRow): Promise<void> {
    const { store, now } = this.#context
    if (thread.state === 'archived' || thread.state === 'ended')
      return release(this.#context, thread, { token: this.#token, signal: this.#stopped })
    this.#aborting = new AbortController()
    this.#steps = new Steps(() => {})
    const signal = AbortSignal.any([this.#aborting.signal, this.#stopped])
    const key = `begin:${thread.updated_at}`
    const tell = (level: 'info' | 'error', text: string) =>
      store.notices.put({ thread_id: this.#threadId, notice_key: key, level, text, created_at: now() })
    try {
      const { hold } = await this.#open(signal)
      await tell('info', `“${hold.record.name}” is ready.`)
    } catch (error) {
      if (signal.aborted) return this.#stopped.throwIfAborted()
      await tell('error', textOf(problemOf(error)))
      if (!SandboxError.is(error)) this.#onError(error)
    }
  }

  async #retitle(title: string): Promise<void> {
    const thread = await this.#context.store.threads.get(this.#threadId)
    if (!thread || title.trim() === '' || thread.title === title.trim()) return
    // A chat that cannot rename now keeps the old title.
    await this.#services.setTitle(title).catch(this.#onError)
  }

  async #sendNotices(): Promise<void> {
    const { store, chat, retryMs } = this.#context
    for (const { notice_key: key, level, text } of await store.notices.list(this.#threadId)) {
      const notice = { key, threadId: this.#threadId, level, text }
      await untilShown(() => chat.notify(notice), { signal: this.#stopped, retryMs })
      await store.notices.shown(this.#threadId, key)
    }
  }

  #showQueue(turns: readonly TurnRow[]): void {
    for (const turn of turns) {
      if (this.#shownQueue.has(turn.id)) continue
      this.#shownQueue.add(turn.id)
      if (turn.is_aborted === 0) this.#displayOf(turn.id).set(answerOf(turn, { state: 'queued' }))
    }
  }

  #displayOf(turnId: string): Display {
    const { chat, retryMs } = this.#context
    const display = this.#displays.get(turnId) ?? new Display(chat, { signal: this.#stopped, retryMs })
    this.#displays.set(turnId, display)
    return display
  }
}
