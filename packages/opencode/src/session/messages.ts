import { limits } from './limits.ts'
import { type Fields, fieldsOf, idIf, lineOf, listOf, numberIf, textIf, textOf } from './read.ts'

export interface SessionMessage {
  readonly id: string
  readonly role: 'user' | 'assistant'
  /** For an answer, the message of the user. */
  readonly parentId?: string
  /** Milliseconds of the server’s clock. */
  readonly createdAt: number
  readonly completedAt?: number
  /** Why the model ended: `stop`, `tool-calls`, … */
  readonly finish?: string
  /** A summary that opencode makes when the conversation becomes too long. */
  readonly isSummary: boolean
  /** `provider/model`. */
  readonly model?: string
  readonly costUsd?: number
  readonly error?: SessionFailure
  readonly parts: readonly MessagePart[]
}

export interface SessionFailure {
  /** opencode’s name of the error, such as `MessageAbortedError`. */
  readonly name: string
  readonly message: string
}

export type MessagePart = TextPart | ToolPart | FilePart | OtherPart

export interface TextPart {
  readonly type: 'text'
  readonly id: string
  readonly text: string
  /** Written by opencode, not by the user or the model. */
  readonly isSynthetic: boolean
  readonly isComplete: boolean
}

export interface ToolPart {
  readonly type: 'tool'
  readonly id: string
  readonly tool: string
  readonly status: 'pending' | 'running' | 'completed' | 'error'
  /** One line: the command, the path, the pattern. */
  readonly title: string
  readonly error?: string
  readonly startedAt?: number
  readonly endedAt?: number
  readonly files: readonly FilePart[]
}

export interface FilePart {
  readonly type: 'file'
  readonly id: string
  readonly name: string
  readonly mime: string
  /** The content. Absent if the server only names it. */
  readonly base64?: string
}

/** Reasoning, steps, and kinds that are added later. */
export interface OtherPart {
  readonly type: 'other'
  readonly id: string
  readonly kind: string
}

/** An element of `GET /session/:id/message`. Undefined: no message. */
export function readMessage(value: unknown): SessionMessage | undefined {
  const { info, parts } = fieldsOf(value)
  const message = readMessageInfo(info)
  return message && { ...message, parts: listOf(parts, limits.parts).flatMap((part) => readPart(part) ?? []) }
}

/** The same without parts, as events have it. */
export function readMessageInfo(value: unknown): SessionMessage | undefined {
  const info = fieldsOf(value)
  const id = idIf(info.id)
  const { role } = info
  if (id === undefined || (role !== 'user' && role !== 'assistant')) return undefined
  const time = fieldsOf(info.time)
  const model = modelOf(role === 'user' ? fieldsOf(info.model) : info)
  return {
    id,
    role,
    parentId: idIf(info.parentID),
    createdAt: numberIf(time.created) ?? 0,
    completedAt: numberIf(time.completed),
    finish: textIf(info.finish, 60),
    isSummary: info.summary === true,
    model,
    costUsd: numberIf(info.cost),
    error: readFailure(info.error),
    parts: [],
  }
}

export function readPart(value: unknown): MessagePart | undefined {
  const part = fieldsOf(value)
  const id = idIf(part.id)
  if (id === undefined) return undefined
  if (part.type === 'text')
    return {
      type: 'text',
      id,
      text: textOf(part.text, limits.textChars),
      isSynthetic: part.synthetic === true || part.ignored === true,
      isComplete: numberIf(fieldsOf(part.time).end) !== undefined,
    }
  if (part.type === 'tool') return toolPart(id, part)
  if (part.type === 'file') return filePart(id, part)
  return { type: 'other', id, kind: textOf(part.type, 60) }
}

export function readFailure(value: unknown): SessionFailure | undefined {
  const { name, data } = fieldsOf(value)
  if (typeof name !== 'string') return undefined
  // opencode reports errors that it did not expect with their stack. A chat shows the message only.
  const message = textOf(fieldsOf(data).message ?? name, limits.errorChars).replace(/\n\s+at \S[\s\S]*$/, '')
  return { name: name.slice(0, 100), message }
}

function modelOf({ providerID, modelID }: Fields): string | undefined {
  if (typeof providerID !== 'string' || typeof modelID !== 'string') return undefined
  return lineOf(`${providerID.slice(0, 200)}/${modelID.slice(0, 200)}`, 300)
}

function toolPart(id: string, part: Fields): ToolPart {
  const state = fieldsOf(part.state)
  const time = fieldsOf(state.time)
  const { status } = state
  return {
    type: 'tool',
    id,
    tool: lineOf(part.tool, 100),
    status: status === 'running' || status === 'completed' || status === 'error' ? status : 'pending',
    title: titleOf(state),
    error: textIf(state.error, limits.errorChars),
    startedAt: numberIf(time.start),
    endedAt: numberIf(time.end),
    files: listOf(state.attachments, 20).flatMap((value, at) => {
      const file = fieldsOf(value)
      return file.type === 'file' ? filePart(idIf(file.id) ?? `${id}_${at}`, file) : []
    }),
  }
}

/** What says best what the tool does, in the words of its input. opencode’s own title is there only at its end. */
const telling = ['command', 'cmd', 'filePath', 'path', 'pattern', 'query', 'url', 'description', 'name']

function titleOf({ title, input }: Fields): string {
  const given = fieldsOf(input)
  const said = telling.map((name) => given[name]).find((value) => typeof value === 'string' && value !== '')
  const questions = listOf(given.questions, 1).map((one) => fieldsOf(one).question)
  const own = typeof title === 'string' && title !== '' ? title : undefined
  return lineOf(said ?? questions[0] ?? own ?? '', limits.titleChars)
}

function filePart(id: string, { mime, filename, url }: Fields): FilePart {
  const base64 = typeof url === 'string' ? /^data:[^,]{0,200};base64,/.exec(url.slice(0, 300)) : null
  const content = base64 && (url as string).slice(base64[0].length)
  return {
    type: 'file',
    id,
    name: lineOf(filename, 200) || 'file',
    mime: lineOf(mime, 100),
    ...(content && content.length <= limits.fileChars && { base64: content }),
  }
}
