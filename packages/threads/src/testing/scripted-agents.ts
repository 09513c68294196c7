import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { type CallOptions, SandboxError } from '@sandkasten/sdk'
import type { AgentAnswer, AgentMessage, AgentReply, ThreadAgent } from '../spec/agent.ts'
import type { AgentOpener, AgentPlace, OpenAgentOptions, ThreadServices } from '../spec/agents.ts'

/**
 * AgentOpener that work like a server beside the bot: their history is in files, and their answers grow with time, also while
 * no bot runs. Words in a message are its script:
 *
 * - `slow`: the answer takes a second
 * - `ask`: waits for the reply to a question
 * - `hang`: never ends, except by an abort
 * - `fail`: ends with an error
 * - `lose`: the first connection is lost in the middle
 */
export class ScriptedAgents implements AgentOpener {
  readonly folder: string
  /** How long an answer takes. */
  readonly workMs: number
  /** Replaces the opening of agents. */
  instead: ((place: AgentPlace) => Promise<void>) | undefined
  readonly opened: AgentPlace[] = []
  readonly services = new Map<string, ThreadServices>()

  constructor(folder: string, { workMs = 20 } = {}) {
    this.folder = folder
    this.workMs = workMs
    mkdirSync(folder, { recursive: true })
  }

  newMessageId(): string {
    count += 1
    return `msg_${String(Date.now()).padStart(15, '0')}${String(count).padStart(6, '0')}_${process.pid}`
  }

  async open(place: AgentPlace, { signal, onStep }: OpenAgentOptions = {}): Promise<ThreadAgent> {
    this.opened.push(place)
    this.services.set(place.threadId, place.services)
    onStep?.('starting the agent')
    await this.instead?.(place)
    signal?.throwIfAborted()
    const isForked = place.sessionId === undefined && place.forkOf !== undefined
    const sessionId =
      place.sessionId ?? `ses_${place.threadId.replaceAll(/\W/g, '_')}${isForked ? '_fork' : ''}`
    const directory = place.directory ?? place.hold.record.directory ?? place.hold.handle.workdir
    return new ScriptedAgent(this, { sessionId, directory, mode: place.mode ?? 'inside' })
  }

  /** Messages that the session has, in the order of their arrival. */
  history(sessionId: string): Array<{ id: string; text: string; files: readonly string[]; model?: string }> {
    const file = path.join(this.folder, `${sessionId}.history`)
    if (!existsSync(file)) return []
    return readFileSync(file, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
  }
}

let count = 0

class ScriptedAgent implements ThreadAgent {
  readonly sessionId: string
  readonly directory: string
  readonly mode: ThreadAgent['mode']
  readonly #agents: ScriptedAgents

  constructor(agents: ScriptedAgents, place: Pick<ThreadAgent, 'sessionId' | 'directory' | 'mode'>) {
    this.#agents = agents
    this.sessionId = place.sessionId
    this.directory = place.directory
    this.mode = place.mode
  }

  async prompt(message: AgentMessage): Promise<void> {
    if (await this.has(message.id)) return
    const line = { ...message, at: Date.now() }
    appendFileSync(path.join(this.#agents.folder, `${this.sessionId}.history`), `${JSON.stringify(line)}\n`)
  }

  async has(messageId: string): Promise<boolean> {
    return this.#agents.history(this.sessionId).some(({ id }) => id === messageId)
  }

  async *answer(messageId: string, { signal }: CallOptions = {}): AsyncGenerator<AgentAnswer, void> {
    const message = this.#agents.history(this.sessionId).find(({ id }) => id === messageId) as
      | { text: string; at: number }
      | undefined
    if (!message) throw new SandboxError('not_found', 'The agent does not have this message.')
    const { text, at } = message
    const workMs = text.includes('slow') ? 1_000 : this.#agents.workMs
    for (let states = 0; ; states += 1) {
      signal?.throwIfAborted()
      const part = Math.min(1, (Date.now() - at) / workMs)
      const isWaiting = text.includes('ask') && this.#read(messageId, 'reply') === undefined
      const isAborted = this.#read(messageId, 'aborted') !== undefined
      const isOver = isAborted || (part === 1 && !isWaiting && !text.includes('hang'))
      const answer = `echo: ${text}${this.#read(messageId, 'reply') ?? ''}`
      const failed = text.includes('fail')
        ? { state: 'failed' as const, error: 'The model refused.' }
        : undefined
      yield {
        state: isAborted ? 'aborted' : isOver ? 'done' : 'working',
        isFinal: isOver,
        blocks: [
          { type: 'text', id: 'text-1', text: isOver ? answer : answer.slice(0, answer.length * part) },
        ],
        questions: isWaiting && !isAborted ? [question(messageId)] : [],
        model: 'scripted/model',
        costUsd: 0.0012,
        title: `About ${text.slice(0, 20)}`,
        ...(isOver && !isAborted && failed),
      }
      if (isOver) return
      if (states === 1 && text.includes('lose') && this.#read(messageId, 'lost') === undefined) {
        this.#write(messageId, 'lost', 'yes')
        throw new SandboxError('interrupted', 'The connection to the agent was lost.')
      }
      await wait(5, undefined, { signal })
    }
  }

  async abort(): Promise<void> {
    const last = this.#agents.history(this.sessionId).at(-1)
    if (last) this.#write(last.id, 'aborted', 'yes')
  }

  async reply(questionId: string, reply: AgentReply): Promise<void> {
    const messageId = questionId.slice('question-'.length)
    if (this.#read(messageId, 'reply') !== undefined) throw new SandboxError('not_found', 'It was answered.')
    this.#write(messageId, 'reply', 'rejected' in reply ? ' (rejected)' : ` (${reply.choices.join('+')})`)
  }

  async models() {
    return [{ id: 'scripted/model', name: 'Scripted' }]
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #read(messageId: string, what: string): string | undefined {
    const file = path.join(this.#agents.folder, `${messageId}.${what}`)
    return existsSync(file) ? readFileSync(file, 'utf8') : undefined
  }

  #write(messageId: string, what: string, text: string): void {
    writeFileSync(path.join(this.#agents.folder, `${messageId}.${what}`), text)
  }
}

function question(messageId: string) {
  return {
    id: `question-${messageId}`,
    kind: 'permission' as const,
    text: 'May I?',
    choices: [
      { value: 'once', label: 'Once' },
      { value: 'no', label: 'No' },
    ],
    isMultiple: false,
    allowsText: false,
  }
}
