import type { Migration, Schema } from '@sandkasten/database'
import { guardColumns, keyGuard } from '@sandkasten/database/sealed'
import { type ColumnDataType, sql } from 'kysely'
import { firstColumns, secretColumns } from './sealed-columns.ts'

/** Never edit a migration that was released. */
const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'sandboxes, threads, providers',
    async up(db) {
      const time: ColumnDataType = 'bigint'
      await db.schema
        .createTable('registry_facts')
        .addColumn('name', 'text', (c) => c.primaryKey())
        .addColumn('value', 'text', (c) => c.notNull())
        .execute()
      await db.schema
        .createTable('registry_scopes')
        .addColumn('app_id', 'text', (c) => c.notNull())
        .addColumn('guild_id', 'text', (c) => c.notNull())
        .addColumn('turn', time, (c) => c.notNull().defaultTo(0))
        .addPrimaryKeyConstraint('registry_scopes_key', ['app_id', 'guild_id'])
        .execute()
      await db.schema
        .createTable('sandbox_providers')
        .addColumn('id', 'text', (c) => c.primaryKey())
        // Never null: two nulls would not count as duplicates.
        .addColumn('app_id', 'text', (c) => c.notNull().defaultTo(''))
        .addColumn('provider', 'text', (c) => c.notNull())
        .addColumn('label', 'text')
        .addColumn('api_key', 'text', (c) => c.notNull())
        .addColumn('config_json', 'text', (c) => c.notNull())
        .addColumn('is_default', 'integer', (c) => c.notNull().defaultTo(0))
        .addColumn('created_at', time, (c) => c.notNull())
        .addColumn('updated_at', time, (c) => c.notNull())
        .addColumn('checked_at', time)
        .addUniqueConstraint('sandbox_providers_once', ['provider', 'app_id'])
        .execute()
      await sql`create unique index sandbox_providers_default on sandbox_providers (app_id) where is_default = 1`.execute(
        db,
      )
      await db.schema
        .createTable('sandboxes')
        .addColumn('id', 'text', (c) => c.primaryKey())
        .addColumn('app_id', 'text', (c) => c.notNull().defaultTo(''))
        .addColumn('guild_id', 'text', (c) => c.notNull().defaultTo(''))
        .addColumn('channel_id', 'text')
        .addColumn('name', 'text', (c) => c.notNull())
        .addColumn('live', 'integer', (c) => c.notNull())
        .addColumn('provider', 'text', (c) => c.notNull())
        .addColumn('credentials_id', 'text')
        .addColumn('provider_sandbox_id', 'text')
        .addColumn('status', 'text', (c) => c.notNull())
        .addColumn('error_message', 'text')
        .addColumn('incarnation', 'integer', (c) => c.notNull().defaultTo(0))
        .addColumn('base_url', 'text')
        .addColumn('snapshot_id', 'text')
        .addColumn('snapshot_at', time)
        .addColumn('snapshot_auto', 'integer', (c) => c.notNull().defaultTo(0))
        .addColumn('repo_url', 'text')
        .addColumn('label', 'text')
        .addColumn('directory', 'text')
        .addColumn('settings', 'text', (c) => c.notNull())
        .addColumn('env', 'text')
        .addColumn('opencode_password', 'text')
        .addColumn('expires_at', time)
        .addColumn('idle_stop_ms', time)
        .addColumn('due_at', time)
        .addColumn('last_used_at', time, (c) => c.notNull())
        .addColumn('last_checked_at', time)
        .addColumn('created_at', time, (c) => c.notNull())
        .addColumn('updated_at', time, (c) => c.notNull())
        .addColumn('destroyed_at', time)
        .addColumn('lease_token', time, (c) => c.notNull().defaultTo(0))
        .addColumn('lease_holder', 'text')
        .addColumn('lease_beat', time, (c) => c.notNull().defaultTo(0))
        .addColumn('operation', 'text')
        .execute()
      await sql`create unique index sandboxes_live_name on sandboxes (app_id, guild_id, name) where live = 1`.execute(
        db,
      )
      await db.schema
        .createIndex('sandboxes_by_channel')
        .on('sandboxes')
        .columns(['channel_id', 'status'])
        .execute()
      await db.schema
        .createIndex('sandboxes_by_provider')
        .on('sandboxes')
        .columns(['provider', 'status'])
        .execute()
      await sql`create index sandboxes_due on sandboxes (due_at) where live = 1 and due_at is not null`.execute(
        db,
      )
      await sql`create index sandboxes_operating on sandboxes (id) where operation is not null`.execute(db)
      await db.schema
        .createTable('thread_sandboxes')
        .addColumn('app_id', 'text', (c) => c.notNull().defaultTo(''))
        .addColumn('guild_id', 'text', (c) => c.notNull().defaultTo(''))
        .addColumn('thread_id', 'text', (c) => c.notNull())
        .addColumn('sandbox_id', 'text', (c) => c.notNull().references('sandboxes.id').onDelete('cascade'))
        .addColumn('created_at', time, (c) => c.notNull())
        // Two apps may choose the same ids for their threads.
        .addPrimaryKeyConstraint('thread_sandboxes_key', ['app_id', 'guild_id', 'thread_id'])
        .execute()
      await db.schema
        .createTable('sandbox_holds')
        .addColumn('id', 'text', (c) => c.primaryKey())
        .addColumn('sandbox_id', 'text', (c) => c.notNull().references('sandboxes.id').onDelete('cascade'))
        .addColumn('thread_id', 'text')
        .addColumn('holder', 'text', (c) => c.notNull())
        .addColumn('beat', time, (c) => c.notNull().defaultTo(0))
        .addColumn('purpose', 'text', (c) => c.notNull())
        .addColumn('created_at', time, (c) => c.notNull())
        .execute()
      for (const table of ['thread_sandboxes', 'sandbox_holds'])
        await db.schema.createIndex(`${table}_by_sandbox`).on(table).column('sandbox_id').execute()
    },
  },
  { version: 2, name: 'only values of the current key', up: keyGuard(firstColumns) },
  {
    version: 3,
    name: 'secrets',
    async up(db, kind) {
      const time: ColumnDataType = 'bigint'
      await db.schema
        .createTable('sandbox_secrets')
        .addColumn('id', 'text', (c) => c.primaryKey())
        .addColumn('app_id', 'text', (c) => c.notNull().defaultTo(''))
        .addColumn('guild_id', 'text', (c) => c.notNull().defaultTo(''))
        .addColumn('secret', 'text', (c) => c.notNull())
        .addColumn('version', time, (c) => c.notNull())
        .addColumn('sealed', 'text', (c) => c.notNull())
        .addColumn('created_at', time, (c) => c.notNull())
        .addColumn('updated_at', time, (c) => c.notNull())
        .addUniqueConstraint('sandbox_secrets_once', ['app_id', 'guild_id', 'secret'])
        .execute()
      await guardColumns(secretColumns)(db, kind)
    },
  },
]

/** The names and the lock differ from the daemon's, so both may use one Postgres database. */
export const schema: Schema = {
  program: 'registry',
  versionTable: 'registry_version',
  lockId: 7_274_114,
  migrations,
}
