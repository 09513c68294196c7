import { SandboxError } from '@sandkasten/sdk'
import { limits } from './limits.ts'
import {
  type MessagePart,
  readFailure,
  readMessageInfo,
  readPart,
  type SessionFailure,
  type SessionMessage,
  type TextPart,
} from './messages.ts'
import { type Fields, fieldsOf, idIf, lineOf, textOf } from './read.ts'
import { type PermissionRequest, type QuestionRequest, readPermission, readQuestion } from './requests.ts'

export type SessionStatus = 'idle' | 'busy' | 'retry'

/** What a session is doing, complete at each moment. */
export interface SessionState {
  readonly status: SessionStatus
  /** For `retry`: why the model has to be asked again. */
  readonly statusText?: string
  /** From the followed message on, oldest first. Empty: the session does not have it. */
  readonly messages: readonly SessionMessage[]
  readonly permissions: readonly PermissionRequest[]
  readonly questions: readonly QuestionRequest[]
  readonly title?: string
  /** The last error of the session since it is followed. A prompt can fail before it has a message. */
  readonly failure?: SessionFailure
}

/** What is read from the server each time that its events begin. */
export interface SessionBase extends Omit<SessionState, 'failure'> {
  /** Sessions that the agent has started for parts of its work. Their requests are those of this session. */
  readonly children: readonly string[]
}

interface Entry {
  info: SessionMessage
  readonly parts: Map<string, MessagePart>
}

/**
 * Keeps a `SessionState` from a base and the events after it. The server saves a text when it is complete; until then
 * its pieces are in events only. So a text whose first pieces were missed stays as it is until it is complete.
 */
export class SessionView {
  readonly #sessionId: string
  readonly #from: string
  readonly #children = new Set<string>()
  #messages = new Map<string, Entry>()
  /** Texts of which pieces were missed. */
  readonly #gaps = new Set<string>()
  readonly #permissions = new Map<string, PermissionRequest>()
  readonly #questions = new Map<string, QuestionRequest>()
  #status: SessionStatus = 'idle'
  #statusText: string | undefined
  #title: string | undefined
  #failure: SessionFailure | undefined
  #chars = 0

  constructor(sessionId: string, from: string) {
    this.#sessionId = sessionId
    this.#from = from
  }

  get state(): SessionState {
    return {
      status: this.#status,
      statusText: this.#statusText,
      messages: [...this.#messages.values()].map(({ info, parts }) => ({
        ...info,
        parts: [...parts.values()],
      })),
      permissions: [...this.#permissions.values()],
      questions: [...this.#questions.values()],
      title: this.#title,
      failure: this.#failure,
    }
  }

  reset(base: SessionBase): void {
    const before = this.#messages
    this.#messages = new Map()
    this.#chars = 0
    this.#gaps.clear()
    for (const message of base.messages) {
      const entry = { info: message, parts: new Map<string, MessagePart>() }
      this.#messages.set(message.id, entry)
      for (const part of message.parts)
        this.#setPart(entry, this.#kept(part, before.get(message.id)?.parts.get(part.id)))
    }
    for (const child of base.children) this.#children.add(child)
    this.#status = base.status
    this.#statusText = base.statusText
    this.#title = base.title
    this.#permissions.clear()
    this.#questions.clear()
    for (const one of base.permissions) if (this.#isOurs(one.sessionId)) this.#permissions.set(one.id, one)
    for (const one of base.questions) if (this.#isOurs(one.sessionId)) this.#questions.set(one.id, one)
  }

  /** Returns whether the event has changed the state. */
  apply(event: Fields): boolean {
    const properties = fieldsOf(event.properties)
    const sessionId = idIf(properties.sessionID)
    switch (event.type) {
      case 'session.created': {
        const { id, parentID } = fieldsOf(properties.info)
        if (typeof id === 'string' && this.#isOurs(parentID) && this.#children.size < limits.messages)
          this.#children.add(id)
        return false
      }
      case 'permission.asked':
        return this.#ask(this.#permissions, readPermission(properties))
      case 'question.asked':
        return this.#ask(this.#questions, readQuestion(properties))
      case 'permission.replied':
        return this.#permissions.delete(String(properties.requestID ?? properties.permissionID))
      case 'question.replied':
      case 'question.rejected':
        return this.#questions.delete(String(properties.requestID))
    }
    return sessionId === this.#sessionId && this.#applyOwn(event.type, properties)
  }

  #applyOwn(type: unknown, properties: Fields): boolean {
    switch (type) {
      case 'message.updated':
        return this.#updateMessage(properties.info)
      case 'message.removed':
        return this.#messages.delete(String(properties.messageID))
      case 'message.part.updated':
        return this.#updatePart(properties.part)
      case 'message.part.removed':
        return this.#entryOf(properties)?.parts.delete(String(properties.partID)) ?? false
      case 'message.part.delta':
        return this.#addDelta(properties)
      case 'session.updated':
        this.#title = lineOf(fieldsOf(properties.info).title, limits.titleChars)
        return true
      case 'session.status': {
        const { type: status, message } = fieldsOf(properties.status)
        this.#status = status === 'busy' || status === 'retry' ? status : 'idle'
        this.#statusText = status === 'retry' ? lineOf(message, limits.errorChars) : undefined
        return true
      }
      case 'session.error':
        this.#failure = readFailure(properties.error) ?? { name: 'UnknownError', message: 'Unknown error.' }
        return true
      default:
        return false
    }
  }

  #updateMessage(value: unknown): boolean {
    const info = readMessageInfo(value)
    if (!info) return false
    const entry = this.#messages.get(info.id)
    if (entry) {
      entry.info = info
      return true
    }
    // Later messages only: the followed one is first.
    if (this.#messages.size === 0 && info.id !== this.#from) return false
    if (this.#messages.size >= limits.messages) throw tooLarge()
    this.#messages.set(info.id, { info, parts: new Map() })
    return true
  }

  #updatePart(value: unknown): boolean {
    const part = readPart(value)
    const entry = this.#entryOf(fieldsOf(value))
    if (!part || !entry) return false
    this.#gaps.delete(part.id)
    this.#setPart(entry, part)
    return true
  }

  #addDelta(properties: Fields): boolean {
    const entry = this.#entryOf(properties)
    const part = entry?.parts.get(String(properties.partID))
    if (!entry || part?.type !== 'text' || properties.field !== 'text') return false
    if (part.isComplete || this.#gaps.has(part.id)) return false
    const text = `${part.text}${textOf(properties.delta, limits.textChars)}`.slice(0, limits.textChars)
    this.#setPart(entry, { ...part, text })
    return true
  }

  #setPart({ parts }: Entry, part: MessagePart): void {
    if (!parts.has(part.id) && parts.size >= limits.parts) throw tooLarge()
    this.#chars += sizeOf(part) - sizeOf(parts.get(part.id))
    parts.set(part.id, part)
    if (this.#chars > limits.totalChars) throw tooLarge()
  }

  /** The base has texts without their last pieces, so a longer text that was known stays. */
  #kept(part: MessagePart, known: MessagePart | undefined): MessagePart {
    if (part.type !== 'text' || part.isComplete) return part
    this.#gaps.add(part.id)
    return isLonger(known, part) ? known : part
  }

  #entryOf({ messageID }: Fields): Entry | undefined {
    return this.#messages.get(String(messageID))
  }

  #ask<T extends { id: string; sessionId: string }>(all: Map<string, T>, one: T | undefined): boolean {
    if (!one || !this.#isOurs(one.sessionId) || all.size >= limits.requests) return false
    all.set(one.id, one)
    return true
  }

  #isOurs(sessionId: unknown): boolean {
    return sessionId === this.#sessionId || this.#children.has(String(sessionId))
  }
}

function isLonger(known: MessagePart | undefined, part: TextPart): known is TextPart {
  return known?.type === 'text' && known.text.length > part.text.length && known.text.startsWith(part.text)
}

function sizeOf(part: MessagePart | undefined): number {
  if (!part) return 0
  const files = part.type === 'tool' ? part.files : part.type === 'file' ? [part] : []
  const content = files.reduce((sum, { base64 = '' }) => sum + base64.length, 0)
  return 500 + content + (part.type === 'text' ? part.text.length : 0)
}

function tooLarge(): SandboxError {
  return new SandboxError('too_large', 'The answer of the agent is too large.', {
    hint: 'Abort it, and ask for a shorter one.',
  })
}
