import type { Threads } from '@sandkasten/threads'
import type { StartThread } from '../commands/command.ts'
import type { Messages } from '../rest/messages.ts'

/**
 * Threads that are being opened. The engine knows a thread before Discord does, so that a crash between both loses
 * nothing; what the engine writes meanwhile waits here.
 */
export class Openings {
  readonly #open = new Map<string, Promise<void>>()
  readonly #messages: Messages

  constructor(messages: Messages) {
    this.#messages = messages
  }

  async start(threads: Threads, start: StartThread): Promise<void> {
    const { messageId, channelId, guildId, title, by, sandbox, model, message, userId } = start
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // Without a writer that waits, a failure would count as unhandled.
    promise.catch(() => {})
    this.#open.set(messageId, promise)
    try {
      await threads.begin({ threadId: messageId, channelId, guildId, title, by, sandbox, model, message })
      try {
        await this.#messages.openThread(channelId, messageId, title)
      } catch (error) {
        // Without its thread, the work of the agent would be invisible.
        await threads.cancel(messageId, by)
        throw error
      }
      resolve()
    } catch (error) {
      reject(error)
      throw error
    } finally {
      this.#open.delete(messageId)
    }
    // Not waited for. The user may have left the server meanwhile.
    if (userId !== undefined) void this.#messages.join(messageId, userId).catch(() => {})
  }

  async opened(threadId: string): Promise<void> {
    await this.#open.get(threadId)
  }
}
