import { createInterface } from 'node:readline'
import { SandboxError } from '@sandkasten/sdk'
import type { Actor, AgentReply, Answer, Question, Threads } from '@sandkasten/threads'
import { type CommandPlace, runChatCommand } from './commands.ts'
import { questionLines, readReply } from './questions.ts'

export interface ConversationOptions {
  readonly threadId: string
  readonly by: Actor
  readonly input: NodeJS.ReadStream
  readonly print: (text: string) => void
  readonly note: (line: string) => void
  /** Begins the thread with this message, or stores the message in it. */
  readonly say: (id: string, text: string) => Promise<void>
}

/** One person at a terminal, or a program that pipes its text. Returns the exit code. */
export class TerminalConversation {
  readonly #options: ConversationOptions
  #threads: Threads | undefined
  #questions: Question[] = []
  #last: Answer | undefined
  #said = 0
  #isAborting = false
  #onChange: () => void = () => {}

  constructor(options: ConversationOptions) {
    this.#options = options
  }

  onFinal(answer: Answer): void {
    this.#last = answer
    this.#isAborting = false
    this.#onChange()
  }

  onQuestion(question: Question): void {
    this.#questions.push(question)
    for (const line of questionLines(question)) this.#options.note(line)
    if (this.#options.input.isTTY) return
    this.#options.note('a piped conversation cannot answer questions: rejected.')
    void this.#reply(question, { rejected: true }).catch((error: unknown) => this.#report(error))
  }

  onSettled({ id }: Question): void {
    this.#questions = this.#questions.filter((question) => question.id !== id)
  }

  async run(threads: Threads): Promise<number> {
    this.#threads = threads
    return this.#options.input.isTTY ? this.#interactive() : this.#piped()
  }

  async #interactive(): Promise<number> {
    const { input, note } = this.#options
    const lines = createInterface({ input, output: process.stderr, prompt: '> ', historySize: 1_000 })
    let isOver = false
    lines.on('SIGINT', () => {
      void this.#interrupt().then((quits) => {
        if (quits) lines.close()
      })
    })
    this.#onChange = () => {
      if (!isOver) lines.prompt(true)
    }
    note('Write a message. /help shows the commands, Ctrl-C aborts an answer.')
    lines.prompt()
    for await (const line of lines) {
      if (/^\/(quit|exit)\s*$/.test(line)) break
      await this.#line(line)
      lines.prompt()
    }
    isOver = true
    lines.close()
    return 0
  }

  /** A text is one message. A text that begins with a command is read line by line. */
  async #piped(): Promise<number> {
    const chunks: Buffer[] = []
    for await (const chunk of this.#options.input) chunks.push(Buffer.from(chunk))
    const text = Buffer.concat(chunks).toString('utf8').trim()
    const interrupt = () => {
      void this.#interrupt().then((quits) => {
        if (quits) process.exit(130)
      })
    }
    process.on('SIGINT', interrupt)
    try {
      for (const line of text.startsWith('/') ? text.split('\n') : [text]) {
        if (/^\/(quit|exit)\s*$/.test(line)) break
        if (!(await this.#line(line))) return 1
        await this.#untilIdle()
      }
    } finally {
      process.off('SIGINT', interrupt)
    }
    return { failed: 1, aborted: 130 }[this.#last?.state as string] ?? 0
  }

  /** False: it failed, and the error was shown. */
  async #line(line: string): Promise<boolean> {
    const { by, threadId, print, note } = this.#options
    try {
      const [question] = this.#questions
      const reply = question && readReply(question, line)
      if (question && reply) await this.#reply(question, reply)
      else if (line.startsWith('/')) {
        const place: CommandPlace = { threads: this.#threads!, threadId, by, print, note }
        await runChatCommand(place, line)
      } else if (line.trim() !== '') await this.#say(line)
      return true
    } catch (error) {
      this.#report(error)
      return false
    }
  }

  async #say(text: string): Promise<void> {
    this.#said += 1
    await this.#options.say(`${Date.now()}-${process.pid}-${this.#said}`, text)
  }

  async #reply({ id }: Question, reply: AgentReply): Promise<void> {
    this.#questions = this.#questions.filter((question) => question.id !== id)
    if (!(await this.#threads!.reply(id, reply, this.#options.by)))
      this.#options.note('the question has ended.')
  }

  async #untilIdle(): Promise<void> {
    for (;;) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#onChange = resolve
      const thread = await this.#threads!.get(this.#options.threadId)
      if (!thread?.isWorking) return
      // The last answer is stored as complete after it is shown.
      await Promise.race([promise, new Promise((again) => setTimeout(again, 200))])
    }
  }

  /** True: the user wants to leave. */
  async #interrupt(): Promise<boolean> {
    const thread = await this.#threads?.get(this.#options.threadId)
    if (!thread?.isWorking || this.#isAborting) return true
    this.#isAborting = true
    this.#options.note('aborting the answer. Press Ctrl-C again to leave.')
    await this.#threads!.abort(this.#options.threadId, this.#options.by)
    return false
  }

  #report(error: unknown): void {
    const isKnown = SandboxError.is(error)
    if (!isKnown) this.#options.note(error instanceof Error ? error.message : String(error))
    else this.#options.note(`${error.message} ${error.hints.cli}`)
  }
}
