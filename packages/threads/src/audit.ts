import { SandboxError } from '@sandkasten/sdk'
import type { Context } from './context.ts'
import type { SettingsPlace } from './spec/rights.ts'
import type { AuditEntry, SavedAuditEntry } from './spec/threads.ts'

/** Records actions with their results. */
export class Audit {
  readonly #context: Pick<Context, 'store' | 'now'>

  constructor(context: Pick<Context, 'store' | 'now'>) {
    this.#context = context
  }

  async add({ by, action, guildId, channelId, threadId, target, result }: AuditEntry): Promise<void> {
    await this.#context.store.audit.add({
      guild_id: guildId ?? '',
      channel_id: channelId ?? null,
      thread_id: threadId ?? null,
      by_id: by.id,
      by_name: by.name,
      action,
      target: target ?? null,
      result,
      at: this.#context.now(),
    })
  }

  /** Runs the action, and records how it ended. */
  async of<T>(entry: Omit<AuditEntry, 'result'>, work: () => Promise<T>): Promise<T> {
    try {
      const result = await work()
      await this.add({ ...entry, result: 'ok' })
      return result
    } catch (error) {
      // The error of the action is the one that the caller needs.
      await this.add({ ...entry, result: SandboxError.is(error) ? error.code : 'internal' }).catch(() => {})
      throw error
    }
  }

  async list({ guildId = '', channelId }: SettingsPlace, limit: number): Promise<readonly SavedAuditEntry[]> {
    const rows = await this.#context.store.audit.list(guildId, {
      ...(channelId !== undefined && { channelId }),
      limit,
    })
    return rows.map((row) => ({
      by: { id: row.by_id, name: row.by_name },
      action: row.action,
      guildId: row.guild_id,
      ...(row.channel_id !== null && { channelId: row.channel_id }),
      ...(row.thread_id !== null && { threadId: row.thread_id }),
      ...(row.target !== null && { target: row.target }),
      result: row.result,
      at: new Date(row.at),
    }))
  }
}
