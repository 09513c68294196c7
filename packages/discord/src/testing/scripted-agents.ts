import { setTimeout as sleep } from 'node:timers/promises'
import type { CallOptions } from '@sandkasten/sdk'
import type {
  AgentAnswer,
  AgentMessage,
  AgentOpener,
  AgentPlace,
  AgentQuestion,
  AgentReply,
  Block,
  OpenAgentOptions,
  ThreadAgent,
  ThreadServices,
} from '@sandkasten/threads'

/** What an agent does with a message. Each call of `show` is one state of its answer. */
export type Script = (turn: Turn) => Promise<void>

export interface Turn {
  readonly message: AgentMessage
  readonly services: ThreadServices
  readonly signal: AbortSignal
  show(blocks: readonly Block[]): void
  ask(question: Omit<AgentQuestion, 'id'>): Promise<AgentReply>
}

interface Session {
  readonly history: AgentMessage[]
  readonly answers: Map<string, AgentAnswer>
  readonly replies: Map<string, (reply: AgentReply) => void>
  running: AbortController | undefined
}

/** Agents that follow a script. Like servers in sandboxes, they outlive the bot and go on without it. */
export class ScriptedAgents implements AgentOpener {
  readonly sessions = new Map<string, Session>()
  readonly opened: AgentPlace[] = []
  script: Script
  #count = 0

  constructor(script: Script = async ({ message, show }) => show([text(`echo: ${message.text}`)])) {
    this.script = script
  }

  newMessageId(): string {
    this.#count += 1
    return `msg_${Date.now().toString().padStart(15, '0')}${String(this.#count).padStart(8, '0')}`
  }

  async open(place: AgentPlace, { onStep }: OpenAgentOptions = {}): Promise<ThreadAgent> {
    this.opened.push(place)
    onStep?.('starting the agent')
    const sessionId = place.sessionId ?? `ses_${place.threadId}`
    const session = this.sessions.get(sessionId) ?? {
      history: [],
      answers: new Map(),
      replies: new Map(),
      running: undefined,
    }
    this.sessions.set(sessionId, session)
    return new ScriptedAgent(sessionId, session, place, this)
  }

  /** All texts that agents were given. */
  get prompts(): string[] {
    return [...this.sessions.values()].flatMap(({ history }) => history.map((message) => message.text))
  }
}

class ScriptedAgent implements ThreadAgent {
  readonly mode: ThreadAgent['mode']
  readonly directory: string
  readonly sessionId: string
  readonly #session: Session
  readonly #place: AgentPlace
  readonly #agents: ScriptedAgents

  constructor(sessionId: string, session: Session, place: AgentPlace, agents: ScriptedAgents) {
    this.sessionId = sessionId
    this.#session = session
    this.#place = place
    this.#agents = agents
    this.mode = place.mode ?? 'inside'
    this.directory = place.directory ?? place.hold.handle.workdir
  }

  async prompt(message: AgentMessage): Promise<void> {
    if (await this.has(message.id)) return
    this.#session.history.push(message)
    void this.#work(message)
  }

  async has(messageId: string): Promise<boolean> {
    return this.#session.history.some(({ id }) => id === messageId)
  }

  async *answer(messageId: string, { signal }: CallOptions = {}): AsyncGenerator<AgentAnswer, void> {
    for (let last: AgentAnswer | undefined; ; await sleep(5, undefined, { signal })) {
      const now = this.#session.answers.get(messageId)
      if (!now || now === last) continue
      last = now
      yield now
      if (now.isFinal) return
    }
  }

  async abort(): Promise<void> {
    this.#session.running?.abort()
  }

  async reply(questionId: string, reply: AgentReply): Promise<void> {
    this.#session.replies.get(questionId)?.(reply)
    this.#session.replies.delete(questionId)
  }

  async models() {
    return [{ id: 'vendor/small', name: 'Small' }]
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  async #work(message: AgentMessage): Promise<void> {
    const running = new AbortController()
    this.#session.running = running
    let answer: AgentAnswer = { state: 'working', isFinal: false, blocks: [], questions: [] }
    const set = (more: Partial<AgentAnswer>) => {
      answer = { ...answer, model: message.model ?? 'vendor/small', ...more }
      this.#session.answers.set(message.id, answer)
    }
    let asked = 0
    set({})
    try {
      await this.#agents.script({
        message,
        services: this.#place.services,
        signal: running.signal,
        show: (blocks) => set({ blocks }),
        ask: (question) => {
          const { promise, resolve } = Promise.withResolvers<AgentReply>()
          asked += 1
          const id = `que_${message.id}_${asked}`
          this.#session.replies.set(id, (reply) => {
            set({ questions: [] })
            resolve(reply)
          })
          set({ questions: [{ id, ...question }] })
          running.signal.addEventListener('abort', () => resolve({ rejected: true }))
          return promise
        },
      })
      set({ state: running.signal.aborted ? 'aborted' : 'done', isFinal: true, questions: [], costUsd: 0.01 })
    } catch (error) {
      const state = running.signal.aborted ? 'aborted' : 'failed'
      set({ state, isFinal: true, questions: [], error: state === 'failed' ? String(error) : undefined })
    }
  }
}

export function text(words: string): Block {
  return { type: 'text', id: 'text', text: words }
}

export function tool(title: string): Block {
  return { type: 'tool', id: title, tool: 'bash', status: 'completed', title }
}
