import { discordCodeOf, type Messages } from '../rest/messages.ts'
import { codes, type RawMessage } from '../rest/rest.ts'
import type { ShownPost, Transport } from '../writer/transport.ts'

/** Writes posts over Discord’s HTTP API. `opened` waits until a thread that is being opened exists. */
export function transportOf(
  messages: Messages,
  { userId, opened }: { userId: string; opened: (threadId: string) => Promise<void> },
): Transport {
  return {
    async send(threadId, post, nonce) {
      await opened(threadId)
      return messages.send(threadId, post, { nonce })
    },
    async edit(threadId, postId, post) {
      await messages.edit(threadId, postId, post)
    },
    remove: (threadId, postId) => messages.remove(threadId, postId),
    async shown(threadId, postId) {
      const message = await messages.get(threadId, postId)
      return message && shownPost(message)
    },
    async find(threadId, nonce) {
      await opened(threadId)
      const latest = await messages.latest(threadId)
      return latest.find((one) => one.author.id === userId && String(one.nonce) === nonce)?.id
    },
    unarchive: (threadId) => messages.setArchived(threadId, false),
    async typing(threadId) {
      await opened(threadId)
      await messages.typing(threadId)
    },
    kindOf(error) {
      const code = discordCodeOf(error)
      if (code === codes.unknownMessage) return 'gone-post'
      if (code === codes.unknownChannel) return 'gone-thread'
      return code === codes.archivedThread ? 'archived' : 'other'
    },
  }
}

function shownPost({ content, attachments, components = [] }: RawMessage): ShownPost {
  const rows = components as ReadonlyArray<{ components?: ReadonlyArray<{ custom_id?: string }> }>
  return {
    content,
    files: attachments.map(({ filename, size }) => ({ name: filename, sizeBytes: size })),
    controls: rows.flatMap((row) => (row.components ?? []).map((one) => one.custom_id ?? '')),
  }
}
