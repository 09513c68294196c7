import type { Answer, Chat, Notice, Question } from '@sandkasten/threads'
import { questionPost, settledPost } from '../questions/question.ts'
import type { Messages } from '../rest/messages.ts'
import { postsOf } from '../show/answer.ts'
import { printable, shortened } from '../show/escape.ts'
import { noticePosts } from '../show/notice.ts'
import type { Writer } from '../writer/writer.ts'
import { type Log, reasonOf } from './log.ts'

/** Questions whose choices are remembered, for values that are too long for an id. */
const mostQuestions = 1000

/** The engine’s view of Discord. */
export class DiscordChat implements Chat {
  readonly name = 'discord'
  readonly #writer: () => Writer
  readonly #messages: Messages
  readonly #log: Log
  readonly #questions = new Map<string, Question>()

  constructor(writer: () => Writer, messages: Messages, log: Log) {
    this.#writer = writer
    this.#messages = messages
    this.#log = log
  }

  async show(answer: Answer): Promise<void> {
    const { id, threadId, isFinal, state } = answer
    const writer = this.#writer()
    writer.setTyping(threadId, !isFinal && state !== 'queued')
    const written = writer.write(threadId, id, postsOf(answer), isFinal)
    if (isFinal) return written
    // A state in between may be lost; the next one has everything.
    written.catch((error) => this.#log({ level: 'warning', text: `thread ${threadId}: ${reasonOf(error)}` }))
  }

  ask(question: Question): Promise<void> {
    this.#questions.set(question.id, question)
    if (this.#questions.size > mostQuestions) this.#questions.delete(this.#questions.keys().next().value!)
    return this.#writer().write(question.threadId, question.id, [questionPost(question)], true)
  }

  settle(question: Question, outcome: string): Promise<void> {
    this.#questions.delete(question.id)
    return this.#writer().write(question.threadId, question.id, [settledPost(question, outcome)], true)
  }

  notify(notice: Notice): Promise<void> {
    const { threadId, key } = notice
    return this.#writer().write(threadId, `${threadId}:${key}`, noticePosts(notice), true)
  }

  /** Not waited for: Discord allows two changes in ten minutes, and the next one would wait that long. */
  async rename(threadId: string, title: string): Promise<void> {
    const name = shortened(printable(title).replace(/\s+/g, ' ').trim(), 100)
    if (name === '') return
    this.#messages
      .rename(threadId, name)
      .catch((error) => this.#log({ level: 'warning', text: `thread ${threadId}: ${reasonOf(error)}` }))
  }

  archive(threadId: string): Promise<void> {
    return this.#messages.setArchived(threadId, true)
  }

  choice(questionId: string, index: number): string | undefined {
    return this.#questions.get(questionId)?.choices[index]?.value
  }
}
