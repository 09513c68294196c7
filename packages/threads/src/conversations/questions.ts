import { createHash } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { AgentQuestion, AgentReply, ThreadAgent } from '../spec/agent.ts'
import type { AskedQuestion } from '../spec/agents.ts'
import type { Question } from '../spec/chat.ts'
import { cut, type QuestionRow, toJson } from '../store/index.ts'
import { untilShown } from './retry.ts'

const mostChoices = 50
const mostOpen = 10

/** Where a question comes from. */
interface Origin {
  readonly source: QuestionRow['source']
  readonly turnId: string | null
  readonly agentQuestionId: string
}

/**
 * Questions of the agent of one thread:
 *
 *     open ─► Chat.ask ─► answered, or ended without an answer ─► Chat.settle ─► settled
 *
 * Each state is stored before the next call, so after a crash the calls are repeated with the same ids.
 */
export class Questions {
  readonly #context: Context
  readonly #threadId: string
  readonly #signal: AbortSignal
  readonly #asked = new Set<string>()
  readonly #delivered = new Set<string>()

  constructor(context: Context, threadId: string, signal: AbortSignal) {
    this.#context = context
    this.#threadId = threadId
    this.#signal = signal
  }

  /** Asks what is new, hands over replies, and ends what the agent no longer waits for. */
  async follow(agent: ThreadAgent, turnId: string, waiting: readonly AgentQuestion[]): Promise<void> {
    const ids = new Set<string>()
    for (const given of waiting.slice(0, mostOpen)) {
      const row = await this.#store({ source: 'agent', turnId, agentQuestionId: given.id }, given.kind, given)
      ids.add(row.id)
      if (row.state === 'open') await this.#ask(row)
      else if (row.state === 'answered') await this.#deliver(agent, row)
    }
    for (const row of await this.#context.store.questions.unsettled(this.#threadId))
      if (row.source === 'agent' && !ids.has(row.id)) await this.#close(row, 'No answer is needed any more.')
  }

  /** Hands over replies that arrived meanwhile. */
  async deliver(agent: ThreadAgent): Promise<void> {
    for (const row of await this.#context.store.questions.unsettled(this.#threadId))
      if (row.source === 'agent' && row.state === 'answered') await this.#deliver(agent, row)
  }

  /** A question through the bridge. Resolves with the reply. */
  async ask(callId: string, given: AskedQuestion, signal: AbortSignal): Promise<AgentReply> {
    const row = await this.#store(
      { source: 'bridge', turnId: null, agentQuestionId: callId },
      'question',
      given,
    )
    if (row.state === 'open') await this.#ask(row)
    for (;;) {
      const { state, reply } = (await this.#context.store.questions.get(row.id)) ?? row
      if (state === 'ended') return { rejected: true }
      if (state === 'answered') return JSON.parse(reply!) as AgentReply
      await this.#changed(signal)
    }
  }

  /** Questions were answered or ended, perhaps by another process. */
  readonly #waiters = new Set<() => void>()
  changed(): void {
    for (const wake of this.#waiters) wake()
  }

  /** Ends all that are open, such as after the turn. Replies that no agent waits for are shown as they are. */
  async end(outcome: string): Promise<void> {
    for (const row of await this.#context.store.questions.unsettled(this.#threadId))
      await this.#close(row, outcome)
    this.changed()
  }

  /** Shows outcomes of questions through the bridge. */
  async settleAnswered(): Promise<void> {
    for (const row of await this.#context.store.questions.unsettled(this.#threadId))
      if (row.source === 'bridge' && row.state !== 'open') await this.#settle(row)
  }

  async #changed(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const abort = () => reject(signal.reason)
    this.#waiters.add(resolve)
    signal.addEventListener('abort', abort, { once: true })
    try {
      await promise
    } finally {
      this.#waiters.delete(resolve)
      signal.removeEventListener('abort', abort)
    }
  }

  #store(origin: Origin, kind: Question['kind'], given: AskedQuestion): Promise<QuestionRow> {
    const { source, turnId, agentQuestionId } = origin
    const id = idOf(this.#context.appId, this.#threadId, source, turnId ?? '', agentQuestionId)
    const question: Question = {
      id,
      threadId: this.#threadId,
      kind,
      text: cut(given.text, 8_000),
      choices: given.choices.slice(0, mostChoices).map(({ value, label, description }) => ({
        value: cut(value, 500),
        label: cut(label, 200),
        ...(description !== undefined && { description: cut(description, 400) }),
      })),
      isMultiple: given.isMultiple,
      allowsText: given.allowsText,
    }
    return this.#context.store.questions.once({
      id,
      thread_id: this.#threadId,
      turn_id: turnId,
      agent_question_id: agentQuestionId,
      source,
      question: toJson(question),
      state: 'open',
      reply: null,
      outcome: null,
      is_settled: 0,
      created_at: this.#context.now(),
    })
  }

  async #ask(row: QuestionRow): Promise<void> {
    if (this.#asked.has(row.id)) return
    this.#asked.add(row.id)
    const { chat, retryMs } = this.#context
    await untilShown(() => chat.ask(JSON.parse(row.question)), { signal: this.#signal, retryMs })
  }

  async #deliver(agent: ThreadAgent, row: QuestionRow): Promise<void> {
    if (this.#delivered.has(row.id)) return
    this.#delivered.add(row.id)
    try {
      const reply = JSON.parse(row.reply!) as AgentReply
      await agent.reply(row.agent_question_id, reply, { signal: this.#signal })
    } catch (error) {
      // An earlier process handed it over.
      if (!SandboxError.is(error, 'not_found')) {
        this.#delivered.delete(row.id)
        throw error
      }
    }
    await this.#settle(row)
  }

  async #close(row: QuestionRow, outcome: string): Promise<void> {
    const { questions } = this.#context.store
    if (row.state === 'open') await questions.end(row.id, outcome)
    const closed = await questions.get(row.id)
    if (closed) await this.#settle(closed)
  }

  async #settle(row: QuestionRow): Promise<void> {
    const { chat, retryMs, store } = this.#context
    const question = JSON.parse(row.question) as Question
    await untilShown(() => chat.settle(question, row.outcome ?? ''), { signal: this.#signal, retryMs })
    await store.questions.settled(row.id)
  }
}

/** The reply as it may be stored. Throws `invalid_argument` if it does not fit the question. */
export function checkReply(question: Question, reply: AgentReply): { reply: AgentReply; outcome: string } {
  if ('rejected' in reply) return { reply: { rejected: true }, outcome: 'rejected' }
  const { choices, text = '' } = reply
  const labels = choices.map((value) => {
    const choice = question.choices.find((one) => one.value === value)
    if (!choice) throw wrong('This choice does not exist.')
    return choice.label
  })
  if (labels.length > 1 && !question.isMultiple) throw wrong('Only one choice is possible.')
  if (text !== '' && !question.allowsText) throw wrong('This question takes no text.')
  if (labels.length === 0 && text === '') throw wrong('The answer is empty.')
  const short = cut(text, 16_000)
  const outcome = [...labels, ...(text === '' ? [] : [cut(text, 200)])].join(', ')
  return { reply: { choices: [...choices], ...(short !== '' && { text: short }) }, outcome }
}

function wrong(message: string): SandboxError {
  return new SandboxError('invalid_argument', message)
}

/** The same question has the same id after a restart, and ids of agents cannot collide with those of others. */
function idOf(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 24)
}
