import {
  Database,
  type DatabaseKind,
  type DatabaseLocation,
  databaseError,
  migrate,
  Reserve,
} from '@sandkasten/database'
import { SandboxError } from '@sandkasten/sdk'
import { type Kysely, sql } from 'kysely'
import { AuditLog } from './audit.ts'
import { type WithReserve, withReserve, withSandboxErrors } from './errors.ts'
import { schema } from './migrations.ts'
import { NoticeRows } from './notices.ts'
import { PostRows } from './posts.ts'
import { QuestionRows } from './questions.ts'
import { ScheduleRows } from './schedules.ts'
import { SettingsRows } from './settings.ts'
import type { Tables } from './tables.ts'
import { ThreadRows } from './threads.ts'
import { TurnRows } from './turns.ts'
import { WorkerRows } from './workers.ts'

/** Enough to open the database, and to end what runs, on a full disk. */
const reservedBytes = 512 * 1024

/** The database of one app’s threads. Every method throws a `SandboxError` only, and then it has changed nothing. */
export class Store {
  readonly kind: DatabaseKind
  readonly threads: ThreadRows
  readonly turns: TurnRows
  readonly posts: PostRows
  readonly questions: QuestionRows
  readonly notices: NoticeRows
  readonly schedules: ScheduleRows
  readonly settings: SettingsRows
  readonly audit: AuditLog
  readonly workers: WorkerRows
  readonly #database: Database<Tables>

  constructor(database: Database<Tables>, appId: string, { reserve }: WithReserve = {}) {
    const { db, kind } = database
    this.#database = database
    this.kind = kind
    this.threads = withSandboxErrors(new ThreadRows(db, appId), reserve)
    this.turns = withSandboxErrors(new TurnRows(db, appId), reserve)
    this.posts = withSandboxErrors(new PostRows(db, appId), reserve)
    this.questions = withSandboxErrors(new QuestionRows(db, appId), reserve)
    this.notices = withSandboxErrors(new NoticeRows(db, appId), reserve)
    this.schedules = withSandboxErrors(new ScheduleRows(db, appId), reserve)
    this.settings = withSandboxErrors(new SettingsRows(db, appId), reserve)
    this.audit = withSandboxErrors(new AuditLog(db, appId), reserve)
    this.workers = withSandboxErrors(new WorkerRows(db, appId), reserve)
  }

  close(): Promise<void> {
    return this.#database.close()
  }
}

/** Opens the database, and migrates its tables to the newest version. */
export async function openStore(where: DatabaseLocation, appId: string): Promise<Store> {
  const file = 'file' in where ? where.file : undefined
  const reserve =
    file === undefined ? undefined : new Reserve(file, { mostBytes: reservedBytes, stays: true })
  const database = await withReserve(() => openMigrated(where), { reserve, file })
  reserve?.take()
  return new Store(database, appId, { reserve })
}

async function openMigrated(where: DatabaseLocation): Promise<Database<Tables>> {
  const database = await Database.connect<Tables>(where)
  try {
    if (!(await isMigrated(database.db)))
      await migrate(database.db as unknown as Kysely<unknown>, database.kind, schema)
    return database
  } catch (error) {
    await database.close().catch(() => {})
    throw error
  }
}

/** Whether the tables have this version. Only reads, so a writer does not keep other processes waiting. */
async function isMigrated(db: Kysely<Tables>): Promise<boolean> {
  const { versionTable, migrations } = schema
  try {
    const { rows } = await sql<{ version: number }>`
      select max(version) as version from ${sql.table(versionTable)}`.execute(db)
    return rows[0]?.version === migrations.at(-1)?.version
  } catch (error) {
    // A new database has no such table. `migrate` reports other errors, if they last.
    if (SandboxError.is(databaseError(error))) throw error
    return false
  }
}
