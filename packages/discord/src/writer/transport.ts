import type { Post } from '../show/post.ts'

/** What the writer needs of a chat. `Messages` over HTTP is one; tests have another. */
export interface Transport {
  send(threadId: string, post: Post, nonce: string): Promise<{ readonly id: string }>
  edit(threadId: string, postId: string, post: Post): Promise<void>
  /** False: it did not exist. */
  remove(threadId: string, postId: string): Promise<boolean>
  /** What a post shows now. Undefined: it was deleted. */
  shown(threadId: string, postId: string): Promise<ShownPost | undefined>
  /** A post with this nonce among the latest of the thread. */
  find(threadId: string, nonce: string): Promise<string | undefined>
  unarchive(threadId: string): Promise<void>
  typing(threadId: string): Promise<void>
  /** How a failure is handled. `other` is reported to the caller. */
  kindOf(error: unknown): 'gone-post' | 'gone-thread' | 'archived' | 'other'
}

export interface ShownPost {
  readonly content: string
  readonly files: ReadonlyArray<{ readonly name: string; readonly sizeBytes: number }>
  /** The ids of the controls, in their order. */
  readonly controls: readonly string[]
}

/** What a post will look like, in the form of `ShownPost`. */
export function shownOf({ content, files = [], rows = [] }: Post): ShownPost {
  return {
    content,
    files: files.map(({ name, bytes }) => ({ name, sizeBytes: bytes.length })),
    controls: rows.flatMap((row) => ('type' in row ? [row.id] : row.map(({ id }) => id))),
  }
}

export function isSame(a: ShownPost, b: ShownPost): boolean {
  // Discord removes spaces around a text.
  return (
    a.content.trim() === b.content.trim() &&
    JSON.stringify(a.files) === JSON.stringify(b.files) &&
    JSON.stringify(a.controls) === JSON.stringify(b.controls)
  )
}
