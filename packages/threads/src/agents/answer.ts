import type { FilePart, MessagePart, SessionMessage, SessionState } from '@sandkasten/opencode/session'
import type { AgentAnswer, AgentQuestion } from '../spec/agent.ts'
import type { Block } from '../spec/answer.ts'

const mostBlocks = 1_000

/** An answer, and whether the session has come to the end of it. */
export interface ReadAnswer {
  readonly answer: AgentAnswer
  /**
   * `working`: more follows. `ended`: the answer is complete. `unclear`: the session is idle without an end, because it
   * has not begun yet, or because its server was killed.
   */
  readonly progress: 'working' | 'ended' | 'unclear'
}

/** The answer to a message, from the state of its session. */
export function readAnswer(state: SessionState, messageId: string): ReadAnswer {
  const { messages, isOver } = answerTo(state.messages, messageId)
  const last = messages.at(-1)
  const isComplete = last !== undefined && hasEnded(last)
  const isIdle = state.status === 'idle' || isOver
  const progress = !isIdle ? 'working' : isComplete || isOver ? 'ended' : 'unclear'
  const error = last?.error
  const isAborted = error?.name === 'MessageAbortedError'
  const costs = messages.flatMap(({ costUsd }) => costUsd ?? [])
  const isFinal = progress === 'ended'
  return {
    progress,
    answer: {
      state: !isFinal ? 'working' : isAborted ? 'aborted' : error ? 'failed' : 'done',
      isFinal,
      blocks: messages.flatMap(blocksOf).slice(0, mostBlocks),
      questions: isFinal ? [] : questionsOf(state),
      ...(isFinal && error && !isAborted && { error: error.message }),
      ...(state.statusText !== undefined && !isFinal && { error: state.statusText }),
      ...(last?.model !== undefined && { model: last.model }),
      ...(costs.length > 0 && { costUsd: costs.reduce((sum, cost) => sum + cost, 0) }),
      ...(isTitle(state.title) && { title: state.title }),
    },
  }
}

/** An answer that ends in another way than its session says. */
export function endedAs(answer: AgentAnswer, state: 'failed' | 'aborted', error?: string): AgentAnswer {
  const { error: _, ...rest } = answer
  return { ...rest, state, isFinal: true, questions: [], ...(error !== undefined && { error }) }
}

/**
 * The agent’s messages until the next message of a user. opencode adds messages in a user’s name when it shortens a long
 * conversation; these belong to the answer.
 */
function answerTo(all: readonly SessionMessage[], messageId: string) {
  const at = all.findIndex(({ id }) => id === messageId)
  const after = at < 0 ? [] : all.slice(at + 1)
  const next = after.findIndex(isOfUser)
  const until = next < 0 ? after : after.slice(0, next)
  const messages = until.filter(({ role, isSummary }) => role === 'assistant' && !isSummary)
  return { messages, isOver: next >= 0 && after.slice(next).some(({ role }) => role === 'assistant') }
}

function isOfUser({ role, parts }: SessionMessage): boolean {
  return role === 'user' && parts.some((part) => part.type === 'text' && !part.isSynthetic)
}

function hasEnded({ error, completedAt, finish }: SessionMessage): boolean {
  if (error) return true
  return completedAt !== undefined && finish !== undefined && finish !== 'tool-calls' && finish !== 'unknown'
}

function blocksOf({ parts }: SessionMessage): Block[] {
  return parts.flatMap(blockOf)
}

function blockOf(part: MessagePart): Block[] {
  if (part.type === 'text')
    return part.isSynthetic || part.text.trim() === '' ? [] : [{ type: 'text', id: part.id, text: part.text }]
  if (part.type === 'file') return fileBlock(part)
  if (part.type !== 'tool') return []
  const { id, tool, status, title, startedAt, endedAt } = part
  const durationMs =
    startedAt !== undefined && endedAt !== undefined ? Math.max(0, endedAt - startedAt) : undefined
  const block: Block = {
    type: 'tool',
    id,
    tool,
    status: status === 'pending' ? 'running' : status,
    title,
    ...(durationMs !== undefined && { durationMs }),
  }
  return [block, ...part.files.flatMap(fileBlock)]
}

function fileBlock({ id, name, base64 }: FilePart): Block[] {
  if (base64 === undefined) return []
  return [{ type: 'file', id, file: { name, bytes: Buffer.from(base64, 'base64') } }]
}

/** Choices have short values, because labels are texts of the agent. */
export const permissionChoices = [
  { value: 'once', label: 'Allow once' },
  { value: 'always', label: 'Always allow' },
  { value: 'reject', label: 'Reject' },
] as const

function questionsOf({ permissions, questions }: SessionState): AgentQuestion[] {
  return [
    ...permissions.map(({ id, permission, patterns }): AgentQuestion => {
      const what = patterns.filter((pattern) => pattern !== '*').join('\n')
      return {
        id,
        kind: 'permission',
        text: what === '' ? `Allow ${permission}?` : `Allow ${permission}?\n${what}`,
        choices: permissionChoices,
        isMultiple: false,
        allowsText: false,
      }
    }),
    ...questions.flatMap(({ id, questions: all }) =>
      all.map(
        ({ text, choices, isMultiple, allowsText }, at): AgentQuestion => ({
          id: questionId(id, at),
          kind: 'question',
          text,
          choices: choices.map(({ label, description }, index) => ({
            value: String(index),
            label,
            ...(description !== '' && { description }),
          })),
          isMultiple,
          allowsText: allowsText || choices.length === 0,
        }),
      ),
    ),
  ]
}

/** One request can have several questions. */
export function questionId(requestId: string, at: number): string {
  return `${requestId}.${at}`
}

/** opencode’s placeholder until its model has named the session. */
function isTitle(title: string | undefined): boolean {
  return title !== undefined && title !== '' && !/^(New|Child) session - \d{4}-/.test(title)
}
