/** People in many threads of one bot: how fast it reacts, and whether each message gets one answer. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Twin, TwinChannel, TwinMessage } from '@sandkasten/discord/testing'
import { assertGoingOn } from '../stop.ts'

const USERS = 5
const PATIENCE = { timeoutMs: 120_000 }

export interface Times {
  /** To the acknowledgement of a command. */
  readonly commands: readonly number[]
  /** To the first message of the bot after a user's. */
  readonly reactions: number[]
  readonly answers: number[]
}

export class Conversations {
  readonly #twin: Twin
  readonly #channel: TwinChannel
  readonly #threads: TwinChannel[] = []
  readonly #texts: { thread: TwinChannel; text: string }[] = []

  constructor(twin: Twin) {
    this.#twin = twin
    this.#channel = twin.guild('Workshop').channel('general')
  }

  get messages(): number {
    return this.#texts.length
  }

  /** Starts threads, all at once: the first ones make the sandboxes, the others share them. Returns the times to the acknowledgements. */
  async start(threads: number, sandboxes: number): Promise<number[]> {
    const made = await Promise.all(range(sandboxes).map((at) => this.#command(at, {})))
    const names = this.#threads.map((thread) => /✓ (\S+) · /.exec(thread.transcript())![1]!)
    const others = range(threads - sandboxes).map((at) =>
      this.#command(sandboxes + at, { sandbox: names[at % sandboxes]! }),
    )
    return [...made, ...(await Promise.all(others))]
  }

  /** One message to each thread, `everyMs` apart. Resolves when all are answered. */
  async round(everyMs: number): Promise<Omit<Times, 'commands'>> {
    const reactions: number[] = []
    const answers: number[] = []
    const said = this.#threads.map(async (thread, at) => {
      await sleep(at * everyMs)
      assertGoingOn()
      const text = this.#newText(thread)
      const startedAt = performance.now()
      const message = await this.#user(at).in(thread).say(text)
      await thread.waitForMessage(isFromBot, { after: message, ...PATIENCE })
      reactions.push(performance.now() - startedAt)
      await thread.waitForMessage((one) => isAnswer(one, text), { after: message, ...PATIENCE })
      answers.push(performance.now() - startedAt)
    })
    await Promise.all(said)
    return { reactions, answers }
  }

  /** Messages without an answer, and answers that came more than once. */
  count(): { lost: number; doubled: number } {
    const counts = this.#texts.map(
      ({ thread, text }) => thread.messages.filter((message) => isAnswer(message, text)).length,
    )
    return {
      lost: counts.filter((count) => count === 0).length,
      doubled: counts.filter((count) => count > 1).length,
    }
  }

  async #command(at: number, options: Record<string, string>): Promise<number> {
    const text = `message-${at}.`
    const startedAt = performance.now()
    const used = await this.#user(at).runSlashCommand('sandbox', { ...options, prompt: text })
    const ms = performance.now() - startedAt
    const find = () => this.#channel.threads.find(({ id }) => id === used.reply?.id)
    const thread = await this.#twin.waitFor(`the thread of ${text}`, find, PATIENCE)
    this.#texts.push({ thread, text })
    await thread.waitForMessage((one) => isAnswer(one, text), PATIENCE)
    this.#threads.push(thread)
    return ms
  }

  #newText(thread: TwinChannel): string {
    const text = `message-${this.#texts.length}.`
    this.#texts.push({ thread, text })
    return text
  }

  #user(at: number) {
    const permissions = ['ManageGuild', 'ViewChannel', 'SendMessages', 'SendMessagesInThreads'] as const
    return this.#channel.user(`user-${at % USERS}`, { permissions })
  }
}

function isFromBot({ author }: TwinMessage): boolean {
  return author === 'sandkasten'
}

function isAnswer({ content }: TwinMessage, text: string): boolean {
  return content.includes(`echo: ${text}`) && /\n-# ✓ /.test(content)
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, at) => at)
}
