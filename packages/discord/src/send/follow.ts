import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import { Messages } from '../rest/messages.ts'
import type { RawMessage } from '../rest/rest.ts'
import { endOf } from '../show/footer.ts'
import type { Sent } from './send.ts'

export interface FollowOptions {
  /** How long the bot may take to react at all. Default 60 s. */
  readonly reactWithinMs?: number
  /** How long the answer may take. Default 1 h. */
  readonly answerWithinMs?: number
  readonly everyMs?: number
  readonly signal?: AbortSignal
}

export interface Followed {
  readonly end: 'done' | 'failed' | 'aborted'
  /** The answer without the bot’s own lines. */
  readonly text: string
}

/** Waits for the answer to a request. Throws `timeout` if the bot does not react, or the answer takes too long. */
export async function follow(sent: Sent, options: FollowOptions = {}): Promise<Followed> {
  const { reactWithinMs = 60_000, answerWithinMs = 3600_000, everyMs = 1500, signal } = options
  const messages = new Messages(sent.rest)
  const begun = Date.now()
  let hasReacted = false
  for (;;) {
    const answer = (await answerIn(messages, sent)) ?? []
    hasReacted ||= answer.length > 0
    const end = answer.map(({ content }) => endOf(content)).find((one) => one !== undefined)
    if (end) return { end, text: textOf(answer) }
    const refused = await refusal(messages, sent)
    if (refused) return { end: 'failed', text: ownText(refused.content) }
    const waited = Date.now() - begun
    if (!hasReacted && waited > reactWithinMs)
      throw new SandboxError('timeout', 'No bot has answered.', {
        hint: 'Start it: sandkasten discord. It does the work when it runs again.',
      })
    if (waited > answerWithinMs) throw new SandboxError('timeout', 'The answer is not complete yet.')
    await sleep(everyMs, undefined, { signal })
  }
}

/** Messages of the bot after the request, up to the end of the first answer. */
async function answerIn(messages: Messages, sent: Sent): Promise<RawMessage[] | undefined> {
  const threadId = sent.isThread ? sent.channelId : sent.messageId
  if (!sent.isThread && !(await messages.channel(threadId))) return undefined
  const found: RawMessage[] = []
  for (let after = sent.messageId; ; ) {
    const page = await messages.after(threadId, after)
    for (const message of page) {
      if (message.author.id !== sent.userId || message.embeds.some(({ footer }) => footer)) continue
      found.push(message)
      if (endOf(message.content)) return found
    }
    if (page.length < 100) return found
    after = page.at(-1)!.id
  }
}

/** The bot’s word that it does not do this, as a reply to the request. */
async function refusal(
  messages: Messages,
  { channelId, messageId, userId }: Sent,
): Promise<RawMessage | undefined> {
  const later = await messages.after(channelId, messageId)
  return later.find(
    (one) =>
      one.author.id === userId &&
      one.message_reference?.message_id === messageId &&
      one.content.startsWith('-# ✕ '),
  )
}

function textOf(answer: readonly RawMessage[]): string {
  const text = answer
    .map(({ content }) =>
      content
        .split('\n')
        .filter((line) => !line.startsWith('-# '))
        .join('\n'),
    )
    .filter((part) => part.trim() !== '')
    .join('\n')
  return text.trim() === '' ? answer.map(({ content }) => ownText(content)).join('\n') : readable(text)
}

/** The bot’s own lines as plain text. */
function ownText(content: string): string {
  return readable(content.replace(/^-# /gm, '').replace(/\\([\\*_~|<>[\]])/g, '$1'))
}

function readable(text: string): string {
  return text.replaceAll('\u200b', '').trim()
}
