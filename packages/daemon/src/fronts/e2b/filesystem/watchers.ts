import { type FileChange, SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import { eventOf } from './service.ts'

const mostEvents = 2_000
const mostWatchers = 64
/** A watcher that is not polled for this long is removed. */
const patienceMs = 300_000

/** Watchers for clients that poll. They end with this process. */
export class Watchers {
  readonly #all = new Map<string, Watcher>()

  async begin(
    sessionId: string,
    open: (signal: AbortSignal) => Promise<AsyncIterable<FileChange>>,
  ): Promise<string> {
    const others = [...this.#all.values()].filter((watcher) => watcher.sessionId === sessionId)
    if (others.length >= mostWatchers)
      throw new SandboxError('quota_exceeded', `The sandbox already has ${mostWatchers} watchers.`, {
        hint: 'Remove watchers that are not needed with RemoveWatcher.',
      })
    const controller = new AbortController()
    const changes = await open(controller.signal)
    const id = randomId()
    const watcher: Watcher = { sessionId, controller, events: [], asked: Date.now() }
    this.#all.set(id, watcher)
    void this.#follow(id, watcher, changes)
    return id
  }

  /** The events since the last call. */
  take(sessionId: string, id: string): object[] {
    const watcher = this.#find(sessionId, id)
    watcher.asked = Date.now()
    return watcher.events.splice(0)
  }

  end(sessionId: string, id: string): void {
    this.#find(sessionId, id).controller.abort()
    this.#all.delete(id)
  }

  async #follow(id: string, watcher: Watcher, changes: AsyncIterable<FileChange>): Promise<void> {
    const check = setInterval(() => {
      if (Date.now() - watcher.asked > patienceMs) watcher.controller.abort()
    }, 30_000).unref()
    try {
      for await (const change of changes) {
        watcher.events.push(eventOf(change))
        if (watcher.events.length > mostEvents) watcher.events.shift()
      }
    } catch {
      // The sandbox or the watcher has ended.
    } finally {
      clearInterval(check)
      this.#all.delete(id)
    }
  }

  #find(sessionId: string, id: string): Watcher {
    const watcher = this.#all.get(id)
    if (watcher?.sessionId === sessionId) return watcher
    throw new SandboxError('not_found', `There is no watcher ${id}.`)
  }
}

interface Watcher {
  readonly sessionId: string
  readonly controller: AbortController
  readonly events: object[]
  asked: number
}
