import type { Posts, SavedPost } from '@sandkasten/threads'
import type { Post } from '../show/post.ts'
import { type ShownPost, shownOf, type Transport } from '../writer/transport.ts'

/** A chat in memory. It records each call, and can fail. */
export class RecordedTransport implements Transport {
  readonly calls: string[] = []
  readonly posts = new Map<string, { nonce: string; post: Post }>()
  /** Called before each call; what it throws is the call’s failure. */
  instead: ((call: string) => unknown) | undefined
  inFlight = 0
  mostInFlight = 0
  #count = 0

  async send(_: string, post: Post, nonce: string) {
    await this.#call(`send ${post.content}`)
    for (const [id, one] of this.posts) if (one.nonce === nonce) return { id }
    this.#count += 1
    const id = `p${this.#count}`
    this.posts.set(id, { nonce, post })
    return { id }
  }

  async edit(_: string, id: string, post: Post): Promise<void> {
    await this.#call(`edit ${post.content}`)
    const found = this.posts.get(id)
    if (!found) throw new Error('gone-post')
    this.posts.set(id, { ...found, post })
  }

  async remove(_: string, id: string): Promise<boolean> {
    await this.#call(`remove ${id}`)
    return this.posts.delete(id)
  }

  async shown(_: string, id: string): Promise<ShownPost | undefined> {
    const found = this.posts.get(id)
    return found && shownOf(found.post)
  }

  async find(_: string, nonce: string): Promise<string | undefined> {
    return [...this.posts].find(([, one]) => one.nonce === nonce)?.[0]
  }

  unarchive = () => this.#call('unarchive')
  typing = () => this.#call('typing')

  kindOf(error: unknown) {
    const { message } = error as Error
    return message === 'gone-post' || message === 'gone-thread' || message === 'archived' ? message : 'other'
  }

  get texts(): string[] {
    return [...this.posts.values()].map(({ post }) => post.content)
  }

  async #call(call: string): Promise<void> {
    this.calls.push(call)
    this.inFlight += 1
    this.mostInFlight = Math.max(this.mostInFlight, this.inFlight)
    try {
      await new Promise((resolve) => setImmediate(resolve))
      await this.instead?.(call)
    } finally {
      this.inFlight -= 1
    }
  }
}

/** `Posts` in memory, like a database that outlives its writers. */
export class MemoryPosts implements Posts {
  readonly rows = new Map<string, SavedPost>()

  async list(ownerId: string): Promise<SavedPost[]> {
    return [...this.rows].filter(([key]) => key.startsWith(`${ownerId}/`)).map(([, row]) => row)
  }

  async reserve(ownerId: string, index: number): Promise<SavedPost> {
    const key = `${ownerId}/${index}`
    const row = this.rows.get(key) ?? { index, nonce: `n${this.rows.size}-${Math.random()}` }
    this.rows.set(key, row)
    return row
  }

  async sent(ownerId: string, index: number, postId: string): Promise<void> {
    const key = `${ownerId}/${index}`
    this.rows.set(key, { ...this.rows.get(key)!, postId })
  }

  async removed(ownerId: string, index: number): Promise<void> {
    this.rows.delete(`${ownerId}/${index}`)
  }
}
