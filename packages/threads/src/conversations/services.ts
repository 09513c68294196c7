import { createHash } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { ScheduledMessage, ThreadServices } from '../spec/agents.ts'
import { cut, type ScheduleRow } from '../store/index.ts'
import type { Questions } from './questions.ts'
import { untilShown } from './retry.ts'

export interface ServicesOptions {
  readonly threadId: string
  readonly token: number
  readonly signal: AbortSignal
  readonly questions: Questions
}

/** What the agent may ask of its thread. Everything is from inside a sandbox: limited, and never repeated. */
export function servicesOf(
  context: Context,
  { threadId, token, signal, questions }: ServicesOptions,
): ThreadServices & { newAnswer(): void } {
  const { chat, store, limits, now, retryMs } = context
  let files = new Set<string>()
  const either = (given?: AbortSignal) => (given ? AbortSignal.any([given, signal]) : signal)
  return {
    newAnswer() {
      files = new Set()
    },

    async sendFile(callId, { name, bytes }, options = {}) {
      if (bytes.byteLength > limits.fileBytes)
        throw new SandboxError('invalid_argument', `The file is larger than ${limits.fileBytes} bytes.`)
      if (!files.has(callId) && files.size >= limits.filesPerAnswer)
        throw new SandboxError('quota_exceeded', `An answer can have ${limits.filesPerAnswer} files.`)
      files.add(callId)
      const file = { name: cut(name.replace(/[^\p{L}\p{N}._ -]+/gu, '_'), 100) || 'file', bytes }
      const notice = {
        key: `file:${digest(callId)}`,
        threadId,
        level: 'info' as const,
        text: cut((options.note ?? '').replace(/\s+/g, ' ').trim(), 500),
        files: [file],
      }
      await untilShown(() => chat.notify(notice), { signal: either(options.signal), retryMs })
    },

    ask: (callId, question, options = {}) => questions.ask(callId, question, either(options.signal)),

    async setTitle(title) {
      const line = cut(title.replace(/\s+/g, ' ').trim(), 100)
      if (line === '') throw new SandboxError('invalid_argument', 'The title is empty.')
      await store.threads.update(threadId, { title: line }, now(), { token })
      await chat.rename(threadId, line)
    },

    async schedule(callId, { at, everyMs, text }) {
      const due_at = at.getTime()
      if (!Number.isSafeInteger(due_at) || due_at > now() + mostAheadMs)
        throw new SandboxError('invalid_argument', 'The time must be within the next 30 days.')
      if (text.trim() === '' || Buffer.byteLength(text) > limits.messageBytes)
        throw new SandboxError('invalid_argument', 'The text is empty or too long.')
      if (everyMs !== undefined && !(everyMs >= leastEveryMs && everyMs <= mostAheadMs))
        throw new SandboxError('invalid_argument', 'A message repeats after 10 minutes to 30 days.')
      const row = {
        id: digest(`${context.appId} ${threadId} ${callId}`),
        thread_id: threadId,
        text,
        due_at: Math.max(due_at, now() + leastAheadMs),
        every_ms: everyMs ?? null,
        created_at: now(),
      }
      await store.schedules.insert(row, limits.schedulesPerThread)
      return scheduled(row)
    },

    listSchedules: async () => (await store.schedules.list(threadId)).map(scheduled),

    cancelSchedule: (id) => store.schedules.remove(threadId, id),
  }
}

const mostAheadMs = 30 * 24 * 3_600_000
/** An agent that schedules itself cannot work without a pause. */
const leastAheadMs = 60_000

const leastEveryMs = 600_000

function scheduled({ id, text, due_at, every_ms }: Omit<ScheduleRow, 'app_id'>): ScheduledMessage {
  return { id, text, at: new Date(Number(due_at)), ...(every_ms !== null && { everyMs: Number(every_ms) }) }
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 32)
}
