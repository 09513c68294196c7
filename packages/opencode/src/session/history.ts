import type { CallOptions } from '@sandkasten/sdk'
import { SandboxError } from '@sandkasten/sdk'
import { callServer, type SessionServer } from './call.ts'
import { limits } from './limits.ts'
import { readMessage, type SessionMessage } from './messages.ts'
import { listOf } from './read.ts'

export interface HistoryPage {
  /** Oldest first. */
  readonly messages: readonly SessionMessage[]
  /** Pass it as `before` to get the page before this one. Absent: this is the first one. */
  readonly before?: string
}

export interface HistoryOptions extends CallOptions {
  readonly before?: string
  /** At most and by default 50. */
  readonly limit?: number
}

/** The newest messages, or those before a page. */
export async function readHistory(
  server: SessionServer,
  sessionId: string,
  { before, limit = limits.pageMessages, signal }: HistoryOptions = {},
): Promise<HistoryPage> {
  const { value, headers } = await callServer(server, {
    path: `session/${sessionId}/message`,
    query: { limit: String(Math.min(limit, limits.pageMessages)), before },
    signal,
  })
  const messages = listOf(value, limits.pageMessages).flatMap((one) => readMessage(one) ?? [])
  const cursor = headers.get('x-next-cursor')
  return { messages, ...(cursor && cursor.length <= 1000 && { before: cursor }) }
}

/** The message with this id and all after it. Empty: the session does not have it. */
export async function readHistoryFrom(
  server: SessionServer,
  sessionId: string,
  from: string,
  signal: AbortSignal | undefined,
): Promise<SessionMessage[]> {
  let newer: SessionMessage[] = []
  let before: string | undefined
  do {
    const page = await readHistory(server, sessionId, { before, signal })
    newer = [...page.messages, ...newer]
    const at = newer.findIndex(({ id }) => id === from)
    if (at >= 0) return newer.slice(at)
    if (newer.length > limits.messages)
      throw new SandboxError('too_large', `More than ${limits.messages} messages follow message ${from}.`)
    before = page.messages.length === 0 ? undefined : page.before
  } while (before !== undefined)
  return []
}
