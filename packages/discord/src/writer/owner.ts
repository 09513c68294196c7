import type { Posts } from '@sandkasten/threads'
import type { Post } from '../show/post.ts'
import { isSame, type ShownPost, shownOf, type Transport } from './transport.ts'

/** The posts of one answer, question or notice. Calls must not overlap. */
export class OwnedPosts {
  readonly #threadId: string
  readonly #ownerId: string
  readonly #posts: Posts
  readonly #transport: Transport
  readonly #known = new Map<number, { id: string; shown: ShownPost | undefined }>()
  #isLoaded = false

  constructor(threadId: string, ownerId: string, posts: Posts, transport: Transport) {
    this.#threadId = threadId
    this.#ownerId = ownerId
    this.#posts = posts
    this.#transport = transport
  }

  /** Makes the thread show exactly these posts: sends, edits and deletes what differs. True: a post was sent or edited. */
  async apply(wanted: readonly Post[]): Promise<boolean> {
    await this.#load()
    let changed = false
    for (const [index, post] of wanted.entries()) changed = (await this.#put(index, post)) || changed
    for (const [index, { id }] of [...this.#known].sort(([a], [b]) => b - a)) {
      if (index < wanted.length) continue
      await this.#transport.remove(this.#threadId, id)
      await this.#posts.removed(this.#ownerId, index)
      this.#known.delete(index)
    }
    return changed
  }

  /** After a restart, the chat says what its posts show. */
  async #load(): Promise<void> {
    if (this.#isLoaded) return
    for (const { index, nonce, postId } of await this.#posts.list(this.#ownerId)) {
      // Sent by a process that ended before it could say so: the nonce finds it.
      const id = postId ?? (await this.#transport.find(this.#threadId, nonce))
      if (id === undefined) continue
      if (postId === undefined) await this.#posts.sent(this.#ownerId, index, id)
      const shown = await this.#transport.shown(this.#threadId, id)
      if (shown) this.#known.set(index, { id, shown })
      else await this.#posts.removed(this.#ownerId, index)
    }
    this.#isLoaded = true
  }

  async #put(index: number, post: Post): Promise<boolean> {
    const known = this.#known.get(index)
    const shown = shownOf(post)
    if (!known) {
      await this.#send(index, post, shown)
      return true
    }
    if (known.shown && isSame(known.shown, shown)) return false
    // If the edit fails half-way, the next one must not be left out.
    known.shown = undefined
    try {
      await this.#transport.edit(this.#threadId, known.id, post)
      known.shown = shown
    } catch (error) {
      if (this.#transport.kindOf(error) !== 'gone-post') throw error
      this.#known.delete(index)
      await this.#posts.removed(this.#ownerId, index)
      await this.#send(index, post, shown)
    }
    return true
  }

  async #send(index: number, post: Post, shown: ShownPost): Promise<void> {
    const { nonce } = await this.#posts.reserve(this.#ownerId, index)
    const { id } = await this.#transport.send(this.#threadId, post, nonce)
    await this.#posts.sent(this.#ownerId, index, id)
    this.#known.set(index, { id, shown })
  }
}
