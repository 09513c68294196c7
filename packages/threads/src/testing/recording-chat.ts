import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import type { Answer } from '../spec/answer.ts'
import type { Chat, Notice, Posts, Question } from '../spec/chat.ts'

/** One line of the record: what a chat service received. */
export type Recorded =
  | { readonly do: 'send'; readonly nonce: string; readonly owner: string; readonly post: Shown }
  | { readonly do: 'edit'; readonly postId: string; readonly post: Shown }
  | { readonly do: 'rename' | 'archive'; readonly threadId: string; readonly title?: string }

export type Shown =
  | { readonly answer: Answer }
  | { readonly question: Question; readonly outcome?: string }
  | { readonly notice: Omit<Notice, 'files'> & { files?: string[] } }

/**
 * A chat whose service is a file, which outlives the process. Like a real one, it sends a post once, edits it later, and
 * keeps the ids of its posts in `Posts`. The service takes a nonce for the id of its post.
 */
export class RecordingChat implements Chat {
  readonly name = 'recording'
  readonly #file: string
  readonly #posts: Posts
  /** Called before each call; it may throw, or wait. */
  instead: ((method: keyof Chat) => Promise<void>) | undefined

  constructor(file: string, posts: Posts) {
    this.#file = file
    this.#posts = posts
  }

  async show(answer: Answer): Promise<void> {
    await this.instead?.('show')
    await this.#put(answer.id, { answer })
  }

  async ask(question: Question): Promise<void> {
    await this.instead?.('ask')
    await this.#put(question.id, { question })
  }

  async settle(question: Question, outcome: string): Promise<void> {
    await this.instead?.('settle')
    await this.#put(question.id, { question, outcome })
  }

  async notify({ files, ...notice }: Notice): Promise<void> {
    await this.instead?.('notify')
    const names = files?.map(({ name, bytes }) => `${name} (${bytes.byteLength})`)
    await this.#put(`${notice.threadId} ${notice.key}`, {
      notice: { ...notice, ...(names && { files: names }) },
    })
  }

  async rename(threadId: string, title: string): Promise<void> {
    this.#write({ do: 'rename', threadId, title })
  }

  async archive(threadId: string): Promise<void> {
    this.#write({ do: 'archive', threadId })
  }

  async #put(owner: string, post: Shown): Promise<void> {
    const { nonce, postId } = await this.#posts.reserve(owner, 0)
    if (postId !== undefined) return this.#write({ do: 'edit', postId, post })
    this.#write({ do: 'send', nonce, owner, post })
    await this.#posts.sent(owner, 0, nonce)
  }

  #write(line: Recorded): void {
    appendFileSync(this.#file, `${JSON.stringify(line)}\n`)
  }
}

/** What the users see: the newest state of each post, in the order in which the posts were sent. */
export class Transcript {
  readonly lines: readonly Recorded[]
  readonly posts = new Map<string, Shown>()
  /** Posts of one owner; more than one is a duplicate. */
  readonly owners = new Map<string, Set<string>>()

  constructor(file: string) {
    this.lines = existsSync(file)
      ? readFileSync(file, 'utf8')
          .split('\n')
          .filter(Boolean)
          .map((line) => JSON.parse(line) as Recorded)
      : []
    for (const line of this.lines) {
      if (line.do === 'send') {
        // A repeated nonce is the same post, and its text stays.
        if (!this.posts.has(line.nonce)) this.posts.set(line.nonce, line.post)
        this.owners.set(line.owner, (this.owners.get(line.owner) ?? new Set()).add(line.nonce))
      } else if (line.do === 'edit') this.posts.set(line.postId, line.post)
    }
  }

  get answers(): Answer[] {
    return [...this.posts.values()].flatMap((post) => ('answer' in post ? [post.answer] : []))
  }

  get questions() {
    return [...this.posts.values()].flatMap((post) => ('question' in post ? [post] : []))
  }

  get notices(): string[] {
    return [...this.posts.values()].flatMap((post) => ('notice' in post ? [post.notice.text] : []))
  }

  /** Texts of the answers of a thread. */
  texts(threadId: string): string[] {
    return this.answers.filter((answer) => answer.threadId === threadId).map(textOfAnswer)
  }
}

export function textOfAnswer({ state, blocks, error }: Answer): string {
  const text = blocks.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('')
  return `${state}: ${error?.message ?? text}`
}
