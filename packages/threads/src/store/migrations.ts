import type { Migration, Schema } from '@sandkasten/database'
import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'

/** Never edit a migration that was released. */
const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'threads, turns, posts, questions, notices, schedules, settings, audit log, workers',
    async up(db) {
      await table(db, 'threads', {
        texts: ['app_id', 'thread_id', 'guild_id', 'channel_id', 'title', 'state', 'choice', 'created_by'],
        nullableTexts: [
          'sandbox',
          'fork_snapshot',
          'mode',
          'session_id',
          'directory',
          'base_commit',
          'model',
          'error_message',
          'error_hint',
        ],
        numbers: ['due', 'created_at', 'updated_at'],
        nullableNumbers: ['incarnation'],
        key: ['app_id', 'thread_id'],
      })
      await table(db, 'thread_turns', {
        texts: ['id', 'app_id', 'thread_id', 'message_id', 'state', 'text', 'files', 'by_id', 'by_name'],
        nullableTexts: ['agent_message_id', 'ending', 'model'],
        numbers: ['seq', 'is_final', 'is_aborted', 'created_at'],
        nullableNumbers: ['cost_micro_usd', 'started_at', 'ended_at'],
        key: ['id'],
        unique: [
          ['app_id', 'thread_id', 'message_id'],
          ['app_id', 'thread_id', 'seq'],
        ],
      })
      await table(db, 'thread_posts', {
        texts: ['app_id', 'owner_id', 'nonce'],
        nullableTexts: ['post_id'],
        numbers: ['place', 'created_at'],
        key: ['app_id', 'owner_id', 'place'],
      })
      await table(db, 'thread_questions', {
        texts: ['id', 'app_id', 'thread_id', 'agent_question_id', 'source', 'question', 'state'],
        nullableTexts: ['turn_id', 'reply', 'outcome'],
        numbers: ['is_settled', 'created_at'],
        key: ['id'],
      })
      await table(db, 'thread_notices', {
        texts: ['app_id', 'thread_id', 'notice_key', 'level', 'text'],
        numbers: ['created_at'],
        key: ['app_id', 'thread_id', 'notice_key'],
      })
      await table(db, 'thread_schedules', {
        texts: ['id', 'app_id', 'thread_id', 'text'],
        numbers: ['due_at', 'created_at'],
        nullableNumbers: ['every_ms'],
        key: ['id'],
      })
      await table(db, 'thread_settings', {
        texts: ['app_id', 'guild_id', 'channel_id', 'settings'],
        numbers: ['updated_at'],
        key: ['app_id', 'guild_id', 'channel_id'],
      })
      await table(db, 'thread_audit', {
        texts: ['id', 'app_id', 'guild_id', 'by_id', 'by_name', 'action', 'result'],
        nullableTexts: ['channel_id', 'thread_id', 'target'],
        numbers: ['at'],
        key: ['id'],
      })
      await table(db, 'thread_workers', {
        texts: ['app_id'],
        nullableTexts: ['holder'],
        numbers: ['token', 'beat'],
        key: ['app_id'],
      })
      for (const statement of [
        sql`create index threads_by_channel on threads (app_id, channel_id)`,
        sql`create index threads_by_sandbox on threads (app_id, guild_id, sandbox)`,
        sql`create index threads_due on threads (app_id) where due = 1`,
        sql`create index thread_turns_open on thread_turns (app_id, thread_id, seq) where is_final = 0`,
        sql`create index thread_turns_old on thread_turns (ended_at) where is_final = 1`,
        sql`create index thread_posts_old on thread_posts (created_at)`,
        sql`create index thread_questions_by_thread on thread_questions (app_id, thread_id)`,
        sql`create index thread_schedules_due on thread_schedules (app_id, due_at)`,
        sql`create index thread_audit_by_time on thread_audit (app_id, guild_id, at)`,
      ])
        await statement.execute(db)
    },
  },
]

interface Columns {
  readonly texts: readonly string[]
  readonly nullableTexts?: readonly string[]
  readonly numbers: readonly string[]
  readonly nullableNumbers?: readonly string[]
  readonly key: readonly string[]
  readonly unique?: ReadonlyArray<readonly string[]>
}

/** All numbers fit 53 bits, and all columns without a value are named as such. */
async function table(db: Kysely<unknown>, name: string, columns: Columns): Promise<void> {
  const number: ColumnDataType = 'bigint'
  let builder: CreateTableBuilder<string, string> = db.schema.createTable(name)
  for (const column of columns.texts) builder = builder.addColumn(column, 'text', (c) => c.notNull())
  for (const column of columns.nullableTexts ?? []) builder = builder.addColumn(column, 'text')
  for (const column of columns.numbers) builder = builder.addColumn(column, number, (c) => c.notNull())
  for (const column of columns.nullableNumbers ?? []) builder = builder.addColumn(column, number)
  builder = builder.addPrimaryKeyConstraint(`${name}_key`, [...columns.key])
  for (const [at, unique] of (columns.unique ?? []).entries())
    builder = builder.addUniqueConstraint(`${name}_once_${at}`, [...unique])
  await builder.execute()
}

/** The names and the lock differ from those of the daemon and the registry, so all may use one Postgres database. */
export const schema: Schema = {
  program: 'threads',
  versionTable: 'threads_version',
  lockId: 7_274_115,
  migrations,
}
