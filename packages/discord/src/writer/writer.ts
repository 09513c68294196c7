import type { Posts } from '@sandkasten/threads'
import type { Post } from '../show/post.ts'
import { type Pace, usualPace, waitBetweenEdits } from './pace.ts'
import { ThreadWriter } from './thread-writer.ts'
import type { Transport } from './transport.ts'

export interface WriterOptions {
  readonly posts: Posts
  readonly transport: Transport
  readonly pace?: Partial<Pace>
  onGone(threadId: string): void
}

/** Writes to all threads of a bot. A thread without work has no entry here. */
export class Writer {
  readonly #options: WriterOptions
  readonly #pace: Pace
  readonly #threads = new Map<string, ThreadWriter>()

  constructor(options: WriterOptions) {
    this.#options = options
    this.#pace = { ...usualPace, ...options.pace }
  }

  write(threadId: string, ownerId: string, posts: readonly Post[], isFinal: boolean): Promise<void> {
    return this.#of(threadId).write(ownerId, posts, isFinal)
  }

  setTyping(threadId: string, isTyping: boolean): void {
    const writer = isTyping ? this.#of(threadId) : this.#threads.get(threadId)
    writer?.setTyping(isTyping)
    if (!isTyping) this.#release(threadId)
  }

  close(): void {
    for (const writer of this.#threads.values()) writer.close()
  }

  #of(threadId: string): ThreadWriter {
    let writer = this.#threads.get(threadId)
    if (writer) return writer
    const { posts, transport, onGone } = this.#options
    writer = new ThreadWriter({
      threadId,
      posts,
      transport,
      wait: () => waitBetweenEdits(this.#pace, this.#threads.size),
      typingEveryMs: this.#pace.typingEveryMs,
      showsTyping: () => this.#threads.size <= this.#pace.typingThreads,
      onGone,
      onIdle: (id) => this.#release(id),
    })
    this.#threads.set(threadId, writer)
    return writer
  }

  #release(threadId: string): void {
    if (this.#threads.get(threadId)?.isBusy === false) this.#threads.delete(threadId)
  }
}
