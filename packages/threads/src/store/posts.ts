import { randomBytes } from 'node:crypto'
import type { Kysely } from 'kysely'
import type { Posts, SavedPost } from '../spec/chat.ts'
import { bounded } from './bounds.ts'
import type { Tables } from './tables.ts'

export class PostRows implements Posts {
  readonly #db: Kysely<Tables>
  readonly #appId: string

  constructor(db: Kysely<Tables>, appId: string) {
    this.#db = db
    this.#appId = appId
  }

  async list(ownerId: string): Promise<readonly SavedPost[]> {
    const rows = await this.#of(ownerId).selectAll().orderBy('place').execute()
    return rows.map(({ place, nonce, post_id }) => ({ index: place, nonce, postId: post_id ?? undefined }))
  }

  async reserve(ownerId: string, index: number): Promise<{ nonce: string; postId?: string }> {
    const row = bounded({
      app_id: this.#appId,
      owner_id: ownerId,
      place: index,
      // 22 characters: chats limit a nonce to 25.
      nonce: randomBytes(16).toString('base64url'),
      post_id: null,
      created_at: Date.now(),
    })
    await this.#db
      .insertInto('thread_posts')
      .values(row)
      .onConflict((oc) => oc.doNothing())
      .execute()
    const { nonce, post_id } = await this.#of(ownerId)
      .selectAll()
      .where('place', '=', index)
      .executeTakeFirstOrThrow()
    return { nonce, postId: post_id ?? undefined }
  }

  async sent(ownerId: string, index: number, postId: string): Promise<void> {
    await this.#db
      .updateTable('thread_posts')
      .set(bounded({ post_id: postId }))
      .where('app_id', '=', this.#appId)
      .where('owner_id', '=', ownerId)
      .where('place', '=', index)
      .execute()
  }

  async removed(ownerId: string, index: number): Promise<void> {
    await this.#db
      .deleteFrom('thread_posts')
      .where('app_id', '=', this.#appId)
      .where('owner_id', '=', ownerId)
      .where('place', '=', index)
      .execute()
  }

  #of(ownerId: string) {
    return this.#db
      .selectFrom('thread_posts')
      .where('app_id', '=', this.#appId)
      .where('owner_id', '=', ownerId)
  }
}
