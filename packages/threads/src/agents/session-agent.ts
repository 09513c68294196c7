import { setTimeout as sleep } from 'node:timers/promises'
import {
  listModels,
  type OpencodeSession,
  type QuestionRequest,
  type SessionState,
} from '@sandkasten/opencode/session'
import { type CallOptions, SandboxError } from '@sandkasten/sdk'
import type {
  AgentAnswer,
  AgentMessage,
  AgentMode,
  AgentModel,
  AgentReply,
  ThreadAgent,
} from '../spec/agent.ts'
import type { Block } from '../spec/answer.ts'
import { endedAs, questionId, readAnswer } from './answer.ts'

export interface SessionAgentOptions {
  readonly mode: AgentMode
  readonly session: OpencodeSession
  /** Added to the instructions of the agent. */
  readonly system?: string
  /** Of messages without one. opencode itself would go on with the model of the message before. */
  readonly defaultModel?: string
  readonly close?: () => Promise<void>
}

/** At most five states per second. */
const pauseMs = 200
/** An idle session without an answer may not have begun. After this time it has ended. */
const unclearMs = 3_000
/** The same before the agent has begun to answer: on a busy machine its first answer takes long to begin. */
const notBegunMs = 20_000
const diffMs = 10_000
const mostPatchChars = 400_000

/** The agent of a thread, as one session of an opencode server. Calls may interleave. */
export class SessionAgent implements ThreadAgent {
  readonly mode: AgentMode
  readonly sessionId: string
  readonly directory: string
  readonly #session: OpencodeSession
  readonly #options: SessionAgentOptions
  /** Replies to a request with several questions, until all are there. */
  readonly #replies = new Map<string, Map<number, string[]>>()
  #abortedAt = 0

  constructor(options: SessionAgentOptions) {
    const { mode, session } = options
    this.#options = options
    this.#session = session
    this.mode = mode
    this.sessionId = session.id
    this.directory = session.server.directory
  }

  async prompt({ id, text, files, model: given }: AgentMessage, { signal }: CallOptions = {}): Promise<void> {
    const { system, defaultModel } = this.#options
    if (given !== undefined) await this.#requireModel(given, signal)
    const model = given ?? defaultModel
    await this.#session.prompt(
      {
        id,
        text: withFiles(text, files),
        ...(model !== undefined && { model }),
        ...(system !== undefined && { system }),
      },
      { signal },
    )
  }

  has(messageId: string, options?: CallOptions): Promise<boolean> {
    return this.#session.has(messageId, options)
  }

  async *answer(messageId: string, { signal }: CallOptions = {}): AsyncGenerator<AgentAnswer, void> {
    const began = Date.now()
    const stop = new AbortController()
    const both = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal
    using _ = { [Symbol.dispose]: () => stop.abort() }
    const states = this.#session.follow(messageId, { signal: both })
    let next = states.next()
    // Read below, also if the loop ends before.
    next.catch(() => {})
    let last: SessionState | undefined
    let patienceMs: number | undefined
    for (;;) {
      const result = await withinMs(next, patienceMs)
      if (result?.done) return
      if (result) {
        last = result.value
        next = states.next()
        next.catch(() => {})
      }
      const { answer, progress } = readAnswer(last!, messageId)
      patienceMs = answer.model === undefined ? notBegunMs : unclearMs
      if (progress === 'ended') return yield await this.#complete(answer, messageId, signal)
      if (progress === 'unclear' && result === undefined && !(await this.#works(signal)))
        return yield this.#broken(last!, answer, messageId, began)
      if (!result) continue
      yield this.#withoutReplied(answer)
      await sleep(pauseMs, undefined, { signal })
    }
  }

  async abort({ signal }: CallOptions = {}): Promise<void> {
    this.#abortedAt = Date.now()
    await this.#session.abort({ signal })
  }

  async reply(id: string, reply: AgentReply, { signal }: CallOptions = {}): Promise<void> {
    const isDone = id.startsWith('per')
      ? await this.#replyPermission(id, reply, signal)
      : await this.#replyQuestion(id, reply, signal)
    if (!isDone)
      throw new SandboxError('gone', 'The question was answered already, or the agent waits no longer.')
  }

  async models({ signal }: CallOptions = {}): Promise<AgentModel[]> {
    return listModels(this.#session.server, { signal })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#options.close?.()
  }

  /** opencode accepts a message for any model, and reports an unknown one in a passing event. */
  async #requireModel(model: string, signal: AbortSignal | undefined): Promise<void> {
    const models = await this.models({ signal })
    if (models.some(({ id }) => id === model)) return
    const some = models.slice(0, 5).map(({ id }) => id)
    throw new SandboxError('invalid_argument', `The agent has no model “${model}”.`, {
      hint: `It has ${some.join(', ')}${models.length > some.length ? ' and others' : ''}.`,
    })
  }

  async #works(signal: AbortSignal | undefined): Promise<boolean> {
    return (await this.#session.status({ signal })).status !== 'idle'
  }

  /** The session is idle, and will not continue by itself. */
  #broken(
    { messages, failure }: SessionState,
    answer: AgentAnswer,
    messageId: string,
    began: number,
  ): AgentAnswer {
    if (!messages.some(({ id }) => id === messageId))
      throw new SandboxError('not_found', 'The session of the agent does not have this message.', {
        hint: 'Send it again.',
      })
    if (failure?.name === 'MessageAbortedError' || this.#abortedAt >= began) return endedAs(answer, 'aborted')
    const reason = 'The agent was interrupted. Its server ended while it worked.'
    return endedAs(answer, 'failed', failure?.message ?? reason)
  }

  /** Adds what the answer has changed, if opencode knows. */
  async #complete(
    answer: AgentAnswer,
    messageId: string,
    signal: AbortSignal | undefined,
  ): Promise<AgentAnswer> {
    if (this.mode === 'home') return answer
    const limit = AbortSignal.timeout(diffMs)
    const both = signal ? AbortSignal.any([signal, limit]) : limit
    // The answer is complete without it.
    const files = await this.#session.diff(messageId, { signal: both }).catch(() => [])
    const patch = files.map((file) => file.patch).join('\n')
    if (patch.trim() === '' || patch.length > mostPatchChars) return answer
    const diff: Block = { type: 'diff', id: `${messageId}-diff`, patch }
    return { ...answer, blocks: [...answer.blocks, diff] }
  }

  async #replyPermission(id: string, reply: AgentReply, signal: AbortSignal | undefined): Promise<boolean> {
    const chosen = 'rejected' in reply ? 'reject' : reply.choices[0]
    if (chosen !== 'once' && chosen !== 'always' && chosen !== 'reject')
      throw new SandboxError('invalid_argument', 'A permission is answered with once, always or reject.')
    return this.#session.replyPermission(id, chosen, { signal })
  }

  async #replyQuestion(id: string, reply: AgentReply, signal: AbortSignal | undefined): Promise<boolean> {
    const [requestId = '', index = '0'] = id.split('.')
    if ('rejected' in reply) {
      this.#replies.delete(requestId)
      return this.#session.rejectQuestion(requestId, { signal })
    }
    const request = (await this.#session.questions({ signal })).find((one) => one.id === requestId)
    const question = request?.questions[Number(index)]
    if (!request || !question) return false
    const labels = reply.choices.flatMap((value) => question.choices[Number(value)]?.label ?? [])
    const answers = [...labels, ...(reply.text ? [reply.text] : [])]
    const known = this.#replies.get(requestId) ?? new Map<number, string[]>()
    this.#replies.set(requestId, known.set(Number(index), answers))
    if (known.size < request.questions.length) return true
    this.#replies.delete(requestId)
    return this.#session.replyQuestion(requestId, answersOf(request, known), { signal })
  }

  #withoutReplied(answer: AgentAnswer): AgentAnswer {
    if (this.#replies.size === 0) return answer
    const replied = new Set(
      [...this.#replies].flatMap(([id, known]) => [...known.keys()].map((at) => questionId(id, at))),
    )
    return { ...answer, questions: answer.questions.filter(({ id }) => !replied.has(id)) }
  }
}

function answersOf({ questions }: QuestionRequest, known: ReadonlyMap<number, string[]>): string[][] {
  return questions.map((_, at) => known.get(at) ?? [])
}

/** Files are named, not attached: the agent reads them with its tools, inside and at home alike. */
function withFiles(text: string, files: readonly string[]): string {
  if (files.length === 0) return text
  return `${text}\n\nFiles of the user, in the sandbox:\n${files.map((file) => `- ${file}`).join('\n')}`
}

/** Undefined after `ms`. The promise goes on. */
async function withinMs<T>(promise: Promise<T>, ms: number | undefined): Promise<T | undefined> {
  if (ms === undefined) return promise
  const stop = new AbortController()
  const late = sleep(ms, undefined, { signal: stop.signal }).catch(() => undefined)
  try {
    return await Promise.race([promise, late])
  } finally {
    stop.abort()
  }
}
