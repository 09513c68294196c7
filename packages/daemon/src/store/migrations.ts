import type { Migration, Schema } from '@sandkasten/database'
import { keyGuard } from '@sandkasten/database/sealed'
import { type ColumnDataType, sql } from 'kysely'
import { sealedSchema } from './sealed-columns.ts'

const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'projects, keys, sessions',
    async up(db, kind) {
      const time: ColumnDataType = 'bigint'
      await db.schema
        .createTable('projects')
        .addColumn('id', 'text', (c) => c.primaryKey())
        .addColumn('name', 'text', (c) => c.notNull().unique())
        .addColumn('quotas', 'text')
        .addColumn('created_at', time, (c) => c.notNull())
        .addColumn('turn', time, (c) => c.notNull().defaultTo(0))
        .execute()
      await db.schema
        .createTable('keys')
        .addColumn('id', 'text', (c) => c.primaryKey())
        .addColumn('project_id', 'text', (c) => c.notNull().references('projects.id'))
        .addColumn('name', 'text', (c) => c.notNull())
        .addColumn('hash', 'text', (c) => c.notNull().unique())
        .addColumn('scopes', 'text', (c) => c.notNull())
        .addColumn('created_at', time, (c) => c.notNull())
        .addColumn('expires_at', time)
        .addColumn('revoked_at', time)
        .execute()
      await db.schema
        .createTable('sessions')
        .addColumn('id', 'text', (c) => c.primaryKey())
        .addColumn('project_id', 'text', (c) => c.notNull().references('projects.id'))
        .addColumn('instance_id', 'text', (c) => c.notNull())
        .addColumn('key_id', 'text', (c) => c.notNull())
        .addColumn('name', 'text')
        .addColumn('status', 'text', (c) => c.notNull())
        .addColumn('status_reason', 'text', (c) => c.notNull())
        .addColumn('status_by', 'text', (c) => c.notNull())
        .addColumn('status_at', time, (c) => c.notNull())
        .addColumn('sandbox_id', 'text')
        .addColumn('incarnation', 'integer', (c) => c.notNull())
        .addColumn('image', 'text', (c) => c.notNull())
        .addColumn('labels', 'text', (c) => c.notNull())
        .addColumn('env_names', 'text', (c) => c.notNull())
        .addColumn('workdir', 'text')
        .addColumn('cwd', 'text')
        .addColumn('cpu', 'double precision', (c) => c.notNull())
        .addColumn('mem_mb', 'integer', (c) => c.notNull())
        .addColumn('disk_mb', 'integer', (c) => c.notNull())
        .addColumn('pids', 'integer', (c) => c.notNull())
        .addColumn('network', 'text', (c) => c.notNull())
        .addColumn('ttl_ms', time, (c) => c.notNull())
        .addColumn('on_idle', 'text', (c) => c.notNull())
        .addColumn('lifetime_ms', time)
        .addColumn('on_lifetime', 'text', (c) => c.notNull())
        .addColumn('wake_on_use', 'integer', (c) => c.notNull())
        .addColumn('snapshot_id', 'text')
        .addColumn('created_at', time, (c) => c.notNull())
        .addColumn('started_at', time, (c) => c.notNull())
        .addColumn('last_activity', time, (c) => c.notNull())
        .addColumn('live', 'integer', (c) => c.notNull())
        .execute()
      await sql`create unique index sessions_live_name on sessions (project_id, name) where live = 1`.execute(
        db,
      )
      await db.schema
        .createIndex('sessions_by_project')
        .on('sessions')
        .columns(['project_id', 'created_at', 'id'])
        .execute()
      await db.schema
        .createIndex('sessions_by_instance')
        .on('sessions')
        .columns(['instance_id', 'live'])
        .execute()
      await db.schema
        .createTable('idempotency')
        .addColumn('project_id', 'text', (c) => c.notNull())
        .addColumn('key', 'text', (c) => c.notNull())
        .addColumn('fingerprint', 'text', (c) => c.notNull())
        .addColumn('session_id', 'text', (c) => c.notNull())
        .addColumn('created_at', time, (c) => c.notNull())
        .addPrimaryKeyConstraint('idempotency_key', ['project_id', 'key'])
        .execute()
      for (const table of ['events', 'audit'] as const) {
        const columns = db.schema
          .createTable(table)
          .addColumn('id', kind === 'postgres' ? 'bigserial' : 'integer', (c) =>
            kind === 'postgres' ? c.primaryKey() : c.primaryKey().autoIncrement(),
          )
          .addColumn('project_id', 'text', (c) => c.notNull())
          .addColumn('created_at', time, (c) => c.notNull())
        await (table === 'events'
          ? columns
              .addColumn('session_id', 'text')
              .addColumn('type', 'text', (c) => c.notNull())
              .addColumn('data', 'text', (c) => c.notNull())
          : columns
              .addColumn('key_id', 'text', (c) => c.notNull())
              .addColumn('action', 'text', (c) => c.notNull())
              .addColumn('target', 'text')
              .addColumn('status', 'integer', (c) => c.notNull())
              .addColumn('request_id', 'text', (c) => c.notNull())
        ).execute()
        await db.schema.createIndex(`${table}_by_project`).on(table).columns(['project_id', 'id']).execute()
      }
    },
  },
  {
    version: 2,
    name: 'commands and snapshots',
    async up(db) {
      const time: ColumnDataType = 'bigint'
      await db.schema
        .createTable('execs')
        .addColumn('session_id', 'text', (c) => c.notNull().references('sessions.id').onDelete('cascade'))
        .addColumn('exec_id', 'text', (c) => c.notNull())
        .addColumn('kind', 'text', (c) => c.notNull())
        .addColumn('status', 'text', (c) => c.notNull())
        .addColumn('detached', 'integer', (c) => c.notNull())
        .addColumn('incarnation', 'integer', (c) => c.notNull())
        .addColumn('shell', 'text')
        .addColumn('command', 'text', (c) => c.notNull())
        .addColumn('fingerprint', 'text', (c) => c.notNull())
        .addColumn('created_at', time, (c) => c.notNull())
        .addColumn('ended_at', time)
        .addColumn('result', 'text')
        .addColumn('events', 'text')
        .addPrimaryKeyConstraint('execs_key', ['session_id', 'exec_id'])
        .execute()
      await db.schema.createIndex('execs_by_status').on('execs').columns(['status', 'session_id']).execute()
      await db.schema
        .createTable('snapshots')
        .addColumn('id', 'text', (c) => c.primaryKey())
        .addColumn('project_id', 'text', (c) => c.notNull().references('projects.id'))
        .addColumn('instance_id', 'text', (c) => c.notNull())
        .addColumn('session_id', 'text', (c) => c.notNull())
        .addColumn('name', 'text')
        .addColumn('provider_id', 'text', (c) => c.notNull())
        .addColumn('image', 'text', (c) => c.notNull())
        .addColumn('size_bytes', time)
        .addColumn('created_at', time, (c) => c.notNull())
        .execute()
      await db.schema
        .createIndex('snapshots_by_project')
        .on('snapshots')
        .columns(['project_id', 'created_at', 'id'])
        .execute()
    },
  },
  {
    version: 3,
    name: 'ports',
    async up(db) {
      await db.schema
        .createTable('ports')
        .addColumn('session_id', 'text', (c) => c.notNull().references('sessions.id').onDelete('cascade'))
        .addColumn('port', 'integer', (c) => c.notNull())
        .addColumn('visibility', 'text', (c) => c.notNull())
        .addColumn('wake', 'integer', (c) => c.notNull())
        .addColumn('token_hash', 'text')
        .addColumn('generation', 'text', (c) => c.notNull())
        .addColumn('created_at', 'bigint', (c) => c.notNull())
        .addPrimaryKeyConstraint('ports_key', ['session_id', 'port'])
        .execute()
    },
  },
  {
    version: 4,
    name: 'fronts; what a project uses',
    async up(db) {
      await db.schema
        .createIndex('sessions_live_by_project')
        .on('sessions')
        .columns(['project_id', 'live'])
        .execute()
      await db.schema
        .createTable('front_records')
        .addColumn('front', 'text', (c) => c.notNull())
        .addColumn('project_id', 'text', (c) => c.notNull().references('projects.id'))
        .addColumn('kind', 'text', (c) => c.notNull())
        .addColumn('key', 'text', (c) => c.notNull())
        .addColumn('session_id', 'text', (c) => c.references('sessions.id').onDelete('cascade'))
        .addColumn('data', 'text', (c) => c.notNull())
        .addColumn('created_at', 'bigint', (c) => c.notNull())
        .addPrimaryKeyConstraint('front_records_key', ['front', 'project_id', 'kind', 'key'])
        .execute()
      await db.schema
        .createIndex('front_records_by_session')
        .on('front_records')
        .column('session_id')
        .execute()
    },
  },
  {
    version: 5,
    name: 'how long stopped sessions are kept',
    async up(db) {
      await db.schema.alterTable('sessions').addColumn('stopped_ttl_ms', 'bigint').execute()
    },
  },
  {
    version: 6,
    name: 'sizes of results; starts under way; settings of snapshots',
    async up(db) {
      await db.schema
        .alterTable('execs')
        .addColumn('project_id', 'text', (c) => c.notNull().defaultTo(''))
        .execute()
      await db.schema
        .alterTable('execs')
        .addColumn('bytes', 'bigint', (c) => c.notNull().defaultTo(0))
        .execute()
      await sql`update execs set
        project_id = coalesce((select project_id from sessions where sessions.id = execs.session_id), ''),
        bytes = 400 + length(command) + coalesce(length(result), 0) + coalesce(length(events), 0)`.execute(db)
      // A covering index for the budget's queries, so that long rows with results are not read.
      await sql`create index execs_kept on execs (project_id, ended_at, session_id, exec_id, bytes) where ended_at is not null`.execute(
        db,
      )
      await db.schema
        .alterTable('sessions')
        .addColumn('starting', 'integer', (c) => c.notNull().defaultTo(0))
        .execute()
      await db.schema.alterTable('snapshots').addColumn('settings', 'text').execute()
    },
  },
  {
    version: 7,
    name: 'volumes',
    async up(db) {
      const time: ColumnDataType = 'bigint'
      await db.schema
        .createTable('volumes')
        .addColumn('id', 'text', (c) => c.primaryKey())
        .addColumn('project_id', 'text', (c) => c.notNull().references('projects.id'))
        .addColumn('instance_id', 'text', (c) => c.notNull())
        .addColumn('name', 'text', (c) => c.notNull())
        .addColumn('state', 'text', (c) => c.notNull())
        .addColumn('provider_name', 'text', (c) => c.notNull().unique())
        .addColumn('limit_mb', 'integer')
        .addColumn('created_at', time, (c) => c.notNull())
        .execute()
      // A name is free again as soon as its volume is being deleted.
      await sql`create unique index volumes_name on volumes (project_id, name) where state <> 'deleting'`.execute(
        db,
      )
      await db.schema
        .createIndex('volumes_by_instance')
        .on('volumes')
        .columns(['instance_id', 'state'])
        .execute()
      await db.schema
        .alterTable('sessions')
        .addColumn('volumes', 'text', (c) => c.notNull().defaultTo('[]'))
        .execute()
    },
  },
  {
    version: 8,
    name: 'policies; subjects of tokens',
    async up(db) {
      await db.schema.alterTable('projects').addColumn('policy', 'text').execute()
      for (const table of ['keys', 'sessions', 'audit'])
        await db.schema.alterTable(table).addColumn('subject', 'text').execute()
      // Partial, so that sessions of keys do not pay for it.
      await sql`create index sessions_by_subject on sessions (project_id, subject, created_at, id) where subject is not null`.execute(
        db,
      )
    },
  },
  {
    version: 9,
    name: 'users of sandboxes',
    async up(db) {
      await db.schema.alterTable('sessions').addColumn('run_user', 'text').execute()
      await db.schema.alterTable('sessions').addColumn('writable_paths', 'text').execute()
    },
  },
  {
    version: 10,
    name: 'secrets; network policies',
    async up(db, kind) {
      const time: ColumnDataType = 'bigint'
      await db.schema
        .createTable('daemon_facts')
        .addColumn('name', 'text', (c) => c.primaryKey())
        .addColumn('value', 'text', (c) => c.notNull())
        .execute()
      await db.schema
        .createTable('secrets')
        .addColumn('id', 'text', (c) => c.primaryKey())
        .addColumn('project_id', 'text', (c) => c.notNull().references('projects.id'))
        .addColumn('name', 'text', (c) => c.notNull())
        .addColumn('version', 'integer', (c) => c.notNull())
        .addColumn('sealed', 'text', (c) => c.notNull())
        .addColumn('hosts', 'text')
        .addColumn('created_at', time, (c) => c.notNull())
        .addColumn('updated_at', time, (c) => c.notNull())
        .addUniqueConstraint('secrets_name', ['project_id', 'name'])
        .execute()
      await keyGuard(sealedSchema)(db, kind)
      await db.schema.alterTable('sessions').addColumn('network_policy', 'text').execute()
    },
  },
]

/** The daemon's tables. The name of the table and the number of the lock are those of released daemons. */
export const schema: Schema = {
  program: 'daemon',
  versionTable: 'schema_version',
  lockId: 7274113,
  migrations,
}
