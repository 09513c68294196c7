import type { Posts } from '@sandkasten/threads'
import type { Post } from '../show/post.ts'
import { OwnedPosts } from './owner.ts'
import type { Transport } from './transport.ts'

interface Wanted {
  posts: readonly Post[]
  isFinal: boolean
  /** Callers that wait until a state is visible. */
  waiting: Array<{ resolve(): void; reject(error: unknown): void }>
}

export interface ThreadWriterOptions {
  readonly threadId: string
  readonly posts: Posts
  readonly transport: Transport
  /** The time between two states that are not final. */
  wait(): number
  readonly typingEveryMs: number
  /** False: too many threads are at work. */
  showsTyping(): boolean
  /** The thread does not exist any more. */
  onGone(threadId: string): void
  onIdle(threadId: string): void
}

/**
 * The one writer of a thread. States of one owner that come while another is sent replace each other; a final state is
 * written at once. One request is in flight at a time, so that posts keep their order.
 */
export class ThreadWriter {
  readonly #options: ThreadWriterOptions
  /** In the order in which they were asked for. */
  readonly #wanted = new Map<string, Wanted>()
  readonly #owners = new Map<string, OwnedPosts>()
  #isRunning = false
  #lastEdit = 0
  #wake: (() => void) | undefined
  #typing: NodeJS.Timeout | undefined

  constructor(options: ThreadWriterOptions) {
    this.#options = options
  }

  get isBusy(): boolean {
    return this.#isRunning || this.#typing !== undefined
  }

  /** Resolves when this state or a later one is visible. */
  write(ownerId: string, posts: readonly Post[], isFinal: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const before = this.#wanted.get(ownerId)
      const waiting = before?.waiting ?? []
      waiting.push({ resolve, reject })
      // A late state of the same answer does not undo its last one.
      if (before?.isFinal && !isFinal) return
      this.#wanted.set(ownerId, { posts, isFinal, waiting })
      if (isFinal) this.#wake?.()
      void this.#run()
    })
  }

  /** Shows that the bot is at work, until `false`. The first post shows it, too, so this begins later. */
  setTyping(isTyping: boolean): void {
    if (isTyping === (this.#typing !== undefined)) return
    clearInterval(this.#typing)
    this.#typing = undefined
    if (!isTyping) return
    const show = () => {
      // An edit a moment ago shows it as well, and requests are scarce.
      if (Date.now() - this.#lastEdit < this.#options.typingEveryMs / 2 || !this.#options.showsTyping())
        return
      this.#options.transport.typing(this.#options.threadId).catch(() => {})
    }
    this.#typing = setInterval(show, this.#options.typingEveryMs)
    this.#typing.unref()
  }

  close(): void {
    this.setTyping(false)
    this.#wake?.()
  }

  async #run(): Promise<void> {
    if (this.#isRunning) return
    this.#isRunning = true
    try {
      for (let next = this.#next(); next !== undefined; next = this.#next()) {
        const [ownerId, wanted] = next
        if (!wanted.isFinal && this.#owners.has(ownerId)) await this.#pause()
        // A later state may have come meanwhile.
        const latest = this.#wanted.get(ownerId) ?? wanted
        this.#wanted.delete(ownerId)
        await this.#apply(ownerId, latest)
      }
    } finally {
      this.#isRunning = false
      this.#options.onIdle(this.#options.threadId)
    }
  }

  /** Final states first. */
  #next(): [string, Wanted] | undefined {
    for (const entry of this.#wanted) if (entry[1].isFinal) return entry
    return this.#wanted.entries().next().value
  }

  async #apply(ownerId: string, { posts, isFinal, waiting }: Wanted): Promise<void> {
    const { threadId, transport } = this.#options
    let owner = this.#owners.get(ownerId)
    if (!owner) {
      owner = new OwnedPosts(threadId, ownerId, this.#options.posts, transport)
      this.#owners.set(ownerId, owner)
    }
    try {
      if (await this.#applied(owner, posts)) this.#lastEdit = Date.now()
      if (isFinal) this.#owners.delete(ownerId)
      for (const { resolve } of waiting) resolve()
    } catch (error) {
      // What the chat shows is not certain any more; it is read again.
      this.#owners.delete(ownerId)
      if (transport.kindOf(error) === 'gone-thread') {
        this.#options.onGone(threadId)
        for (const { resolve } of waiting) resolve()
      } else for (const { reject } of waiting) reject(error)
    }
  }

  async #applied(owner: OwnedPosts, posts: readonly Post[]): Promise<boolean> {
    const { threadId, transport } = this.#options
    try {
      return await owner.apply(posts)
    } catch (error) {
      if (transport.kindOf(error) !== 'archived') throw error
      await transport.unarchive(threadId)
      return owner.apply(posts)
    }
  }

  /** Until the next edit is due, or a final state has come. */
  async #pause(): Promise<void> {
    const ms = this.#lastEdit + this.#options.wait() - Date.now()
    const hasFinal = () => [...this.#wanted.values()].some(({ isFinal }) => isFinal)
    if (ms <= 0 || hasFinal()) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.#wake = undefined
  }
}
