import { setTimeout as sleep } from 'node:timers/promises'
import { type CallOptions, SandboxError } from '@sandkasten/sdk'
import type { PermissionRule } from '../sandbox-only.ts'
import { callServer, type SessionServer } from './call.ts'
import { type FollowOptions, followSession } from './follow.ts'
import { type HistoryOptions, type HistoryPage, readHistory, readHistoryFrom } from './history.ts'
import { limits } from './limits.ts'
import { isMessageId, textPartId } from './message-id.ts'
import { readMessage, type SessionMessage } from './messages.ts'
import { modelOf } from './model.ts'
import { fieldsOf, idIf, lineOf, listOf, numberIf, textOf } from './read.ts'
import { type PermissionRequest, type QuestionRequest, readPermissions, readQuestions } from './requests.ts'
import type { SessionBase, SessionState, SessionStatus } from './view.ts'

export interface OpenSessionOptions extends CallOptions {
  /** Opens this session. Throws `not_found` if the server does not have it. Default: a new one. */
  readonly sessionId?: string
  /** Makes a copy of this session, with its messages so far. Throws `not_found` if the server does not have it. */
  readonly forkOf?: string
  /** For a new session. Without one, opencode asks its model for a title. */
  readonly title?: string
  /** Rules of a new session. They win over all configuration. */
  readonly permission?: readonly PermissionRule[]
}

export interface SessionPrompt {
  /** From `newMessageId()`. */
  readonly id: string
  readonly text: string
  /** `provider/model`. Default: that of the configuration. */
  readonly model?: string
  /** Added to the instructions of the agent, for this prompt. */
  readonly system?: string
}

export interface FileDiff {
  readonly file: string
  readonly patch: string
  readonly additions: number
  readonly deletions: number
}

/** One session of an opencode server, over its HTTP API. What the server sends is checked and limited. */
export interface OpencodeSession {
  readonly id: string
  readonly server: SessionServer
  /** Sends a message. The same id twice is one message, with one answer. */
  prompt(prompt: SessionPrompt, options?: CallOptions): Promise<void>
  /** Whether the session has the message, and has answered it or is working. */
  has(messageId: string, options?: CallOptions): Promise<boolean>
  message(messageId: string, options?: CallOptions): Promise<SessionMessage | undefined>
  history(options?: HistoryOptions): Promise<HistoryPage>
  /** States from this message on, beginning with the present one. */
  follow(messageId: string, options?: FollowOptions): AsyncGenerator<SessionState, void>
  status(options?: CallOptions): Promise<{ readonly status: SessionStatus; readonly text?: string }>
  title(options?: CallOptions): Promise<string>
  abort(options?: CallOptions): Promise<void>
  /** Of this session and those that it has started. */
  permissions(options?: CallOptions): Promise<readonly PermissionRequest[]>
  /** False: the request has ended. */
  replyPermission(
    requestId: string,
    reply: 'once' | 'always' | 'reject',
    options?: ReplyOptions,
  ): Promise<boolean>
  questions(options?: CallOptions): Promise<readonly QuestionRequest[]>
  /** For each question the chosen labels, or another text. */
  replyQuestion(requestId: string, answers: readonly string[][], options?: CallOptions): Promise<boolean>
  rejectQuestion(requestId: string, options?: CallOptions): Promise<boolean>
  /** What the answer to a message has changed in the files. */
  diff(messageId: string, options?: CallOptions): Promise<readonly FileDiff[]>
}

export interface ReplyOptions extends CallOptions {
  /** Told to the agent. */
  readonly message?: string
}

export async function openSession(
  server: SessionServer,
  { sessionId, forkOf, title, permission, signal }: OpenSessionOptions = {},
): Promise<OpencodeSession> {
  for (const given of [sessionId, forkOf])
    if (given !== undefined && idIf(given) === undefined)
      throw new SandboxError('invalid_argument', 'The id of the session is invalid.')
  if (sessionId === undefined && forkOf !== undefined)
    return new HttpSession(server, await forked(server, forkOf, permission, signal))
  const body = { ...(title !== undefined && { title }), ...(permission && { permission }) }
  const { value } =
    sessionId === undefined
      ? await callServer(server, { method: 'POST', path: 'session', body, signal })
      : await callServer(server, { path: `session/${sessionId}`, signal })
  const id = idIf(fieldsOf(value).id)
  if (id === undefined || (sessionId !== undefined && sessionId !== id))
    throw new SandboxError('provider_error', 'opencode’s answer is no session.')
  return new HttpSession(server, id)
}

/**
 * opencode copies the messages. The copy has no rules, and works in the folder of the first session with the tools there,
 * so both are changed before any prompt, and checked.
 */
async function forked(
  server: SessionServer,
  forkOf: string,
  permission: readonly PermissionRule[] | undefined,
  signal: AbortSignal | undefined,
): Promise<string> {
  const post = { method: 'POST' as const, path: `session/${forkOf}/fork`, body: {}, signal }
  const id = idIf(fieldsOf((await callServer(server, post)).value).id)
  if (id === undefined) throw new SandboxError('provider_error', 'opencode’s answer is no session.')
  const move = { sessionID: id, destination: { directory: server.directory } }
  await callServer(server, {
    method: 'POST',
    path: 'experimental/control-plane/move-session',
    body: move,
    signal,
  })
  const { directory } = fieldsOf((await callServer(server, { path: `session/${id}`, signal })).value)
  if (directory !== server.directory)
    throw new SandboxError('provider_error', 'opencode did not move the copied session to its folder.')
  if (permission) {
    const patch = { method: 'PATCH' as const, path: `session/${id}`, body: { permission }, signal }
    const rules = fieldsOf((await callServer(server, patch)).value).permission
    if (!Array.isArray(rules) || rules.length < permission.length)
      throw new SandboxError('provider_error', 'opencode did not take the rules of the copied session.')
  }
  return id
}

const acceptMs = 10_000
const lookMs = 50

/** Calls may interleave. Prompts with the same id wait for each other. */
class HttpSession implements OpencodeSession {
  readonly id: string
  readonly server: SessionServer
  readonly #prompts = new Map<string, Promise<void>>()

  constructor(server: SessionServer, id: string) {
    this.server = server
    this.id = id
  }

  async prompt(prompt: SessionPrompt, options: CallOptions = {}): Promise<void> {
    if (!isMessageId(prompt.id))
      throw new SandboxError('invalid_argument', 'The id of the message is not from newMessageId().')
    if (prompt.text === '' || prompt.text.length > limits.promptChars)
      throw new SandboxError('invalid_argument', 'The message is empty or longer than 8 MB.', {
        hint: 'Put long material into a file.',
      })
    const before = this.#prompts.get(prompt.id)
    const sent = (before ?? Promise.resolve()).catch(() => {}).then(() => this.#send(prompt, options))
    this.#prompts.set(prompt.id, sent)
    try {
      await sent
    } finally {
      if (this.#prompts.get(prompt.id) === sent) this.#prompts.delete(prompt.id)
    }
  }

  /**
   * opencode does not refuse an id that it has: it adds the parts again, and may answer again. So look first. If the
   * message is there without an answer, its server ended in between; sending it again replaces its text with itself.
   */
  async #send({ id, text, model, system }: SessionPrompt, { signal }: CallOptions): Promise<void> {
    if (await this.has(id, { signal })) return
    await callServer(this.server, {
      method: 'POST',
      path: `session/${this.id}/prompt_async`,
      body: {
        messageID: id,
        parts: [{ id: textPartId(id), type: 'text', text }],
        ...(model !== undefined && { model: modelOf(model) }),
        ...(system !== undefined && { system }),
      },
      signal,
    })
    // The answer says only that the request was understood.
    const until = Date.now() + acceptMs
    while (!(await this.message(id, { signal }))) {
      if (Date.now() > until)
        throw new SandboxError('provider_error', 'opencode has not accepted the message.', {
          hint: 'See whether its model and agent exist.',
        })
      await sleep(lookMs, undefined, { signal })
    }
  }

  async has(messageId: string, { signal }: CallOptions = {}): Promise<boolean> {
    if (!(await this.message(messageId, { signal }))) return false
    // Ask for the status first: an answer that ends in between is in the history.
    if ((await this.status({ signal })).status !== 'idle') return true
    const [, ...after] = await readHistoryFrom(this.server, this.id, messageId, signal)
    return after.length > 0
  }

  async message(messageId: string, { signal }: CallOptions = {}): Promise<SessionMessage | undefined> {
    if (idIf(messageId) === undefined) return undefined
    try {
      const path = `session/${this.id}/message/${messageId}`
      return readMessage((await callServer(this.server, { path, signal })).value)
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return undefined
      throw error
    }
  }

  history(options?: HistoryOptions): Promise<HistoryPage> {
    return readHistory(this.server, this.id, options)
  }

  follow(messageId: string, options?: FollowOptions): AsyncGenerator<SessionState, void> {
    const { server, id: sessionId } = this
    return followSession(
      { server, sessionId, from: messageId, readBase: (signal) => this.#base(messageId, signal) },
      options,
    )
  }

  async status({ signal }: CallOptions = {}): Promise<{ status: SessionStatus; text?: string }> {
    const { value } = await callServer(this.server, { path: 'session/status', signal })
    const { type, message } = fieldsOf(fieldsOf(value)[this.id])
    if (type === 'retry') return { status: 'retry', text: lineOf(message, limits.errorChars) }
    return { status: type === 'busy' ? 'busy' : 'idle' }
  }

  async title({ signal }: CallOptions = {}): Promise<string> {
    const { value } = await callServer(this.server, { path: `session/${this.id}`, signal })
    return lineOf(fieldsOf(value).title, limits.titleChars)
  }

  async abort({ signal }: CallOptions = {}): Promise<void> {
    await callServer(this.server, { method: 'POST', path: `session/${this.id}/abort`, signal })
  }

  async permissions({ signal }: CallOptions = {}): Promise<PermissionRequest[]> {
    const { value } = await callServer(this.server, { path: 'permission', signal })
    return this.#own(readPermissions(value), signal)
  }

  async questions({ signal }: CallOptions = {}): Promise<QuestionRequest[]> {
    const { value } = await callServer(this.server, { path: 'question', signal })
    return this.#own(readQuestions(value), signal)
  }

  async replyPermission(
    id: string,
    reply: 'once' | 'always' | 'reject',
    { message, signal }: ReplyOptions = {},
  ): Promise<boolean> {
    const body = { reply, ...(message !== undefined && { message }) }
    return this.#reply(`permission/${checked(id)}/reply`, body, signal)
  }

  async replyQuestion(
    id: string,
    answers: readonly string[][],
    { signal }: CallOptions = {},
  ): Promise<boolean> {
    return this.#reply(`question/${checked(id)}/reply`, { answers }, signal)
  }

  async rejectQuestion(id: string, { signal }: CallOptions = {}): Promise<boolean> {
    return this.#reply(`question/${checked(id)}/reject`, {}, signal)
  }

  async diff(messageId: string, { signal }: CallOptions = {}): Promise<FileDiff[]> {
    const query = { messageID: messageId }
    const { value } = await callServer(this.server, { path: `session/${this.id}/diff`, query, signal })
    return listOf(value, limits.diffFiles).map((one) => {
      const { file, patch, additions, deletions } = fieldsOf(one)
      return {
        file: lineOf(file, 4096),
        patch: textOf(patch, limits.patchChars),
        additions: numberIf(additions) ?? 0,
        deletions: numberIf(deletions) ?? 0,
      }
    })
  }

  async #base(messageId: string, signal: AbortSignal): Promise<SessionBase> {
    // The status is older than the history, so a session that is idle has its complete answer there.
    const { status, text: statusText } = await this.status({ signal })
    const [messages, permissions, questions, title, children] = await Promise.all([
      readHistoryFrom(this.server, this.id, messageId, signal),
      callServer(this.server, { path: 'permission', signal }),
      callServer(this.server, { path: 'question', signal }),
      this.title({ signal }),
      this.#children(signal),
    ])
    return {
      status,
      statusText,
      messages,
      permissions: readPermissions(permissions.value),
      questions: readQuestions(questions.value),
      title,
      children,
    }
  }

  async #children(signal: AbortSignal | undefined): Promise<string[]> {
    const { value } = await callServer(this.server, { path: `session/${this.id}/children`, signal })
    return listOf(value, limits.messages).flatMap((one) => idIf(fieldsOf(one).id) ?? [])
  }

  async #own<T extends { sessionId: string }>(all: T[], signal: AbortSignal | undefined): Promise<T[]> {
    if (all.every(({ sessionId }) => sessionId === this.id)) return all
    const ours = new Set([this.id, ...(await this.#children(signal))])
    return all.filter(({ sessionId }) => ours.has(sessionId))
  }

  async #reply(path: string, body: object, signal: AbortSignal | undefined): Promise<boolean> {
    try {
      await callServer(this.server, { method: 'POST', path, body, signal })
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }
}

function checked(requestId: string): string {
  if (idIf(requestId) === undefined)
    throw new SandboxError('invalid_argument', 'The id of the request is invalid.')
  return requestId
}
