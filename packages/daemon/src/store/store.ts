import { Database, type DatabaseKind, type FullDiskRules } from '@sandkasten/database'
import { SealedValues } from '@sandkasten/database/sealed'
import type { Kysely } from 'kysely'
import { Execs } from './execs.ts'
import { Fronts } from './fronts.ts'
import { Keys } from './keys.ts'
import { schema } from './migrations.ts'
import { Ports } from './ports.ts'
import { Records } from './records.ts'
import { sealedSchema } from './sealed-columns.ts'
import { SecretRows } from './secrets.ts'
import { Sessions } from './sessions.ts'
import { Snapshots } from './snapshots.ts'
import type { Tables } from './tables.ts'
import { Volumes } from './volumes.ts'

/** `db_url` names a Postgres database. Otherwise the database is the SQLite file `db_path`. */
export interface StoreOptions {
  readonly db_url?: string
  readonly db_path: string
}

/** The daemon's database. Every method may throw `unavailable` or `disk_full`; then it changed nothing. */
export class Store {
  readonly kind: DatabaseKind
  readonly db: Kysely<Tables>
  readonly keys: Keys
  readonly sessions: Sessions
  readonly execs: Execs
  readonly snapshots: Snapshots
  readonly volumes: Volumes
  readonly secrets: SecretRows
  /** The encrypted values of all tables. */
  readonly sealed: SealedValues
  readonly ports: Ports
  readonly fronts: Fronts
  readonly records: Records

  readonly #database: Database<Tables>

  private constructor(database: Database<Tables>) {
    const { kind, db } = database
    const guarded = <T extends object>(queries: T) => database.guarded(queries, onFullDisk)
    this.#database = database
    this.kind = kind
    this.db = db
    this.keys = guarded(new Keys(db))
    this.sessions = guarded(new Sessions(db))
    this.execs = guarded(new Execs(db))
    this.snapshots = guarded(new Snapshots(db))
    this.volumes = guarded(new Volumes(db))
    this.secrets = guarded(new SecretRows(db))
    this.sealed = guarded(new SealedValues(db, kind, sealedSchema))
    this.ports = guarded(new Ports(db))
    this.fronts = guarded(new Fronts(db))
    this.records = guarded(new Records(db))
  }

  /** Opens the database and migrates its tables to the newest version. */
  static async open(options: StoreOptions): Promise<Store> {
    return new Store(await Database.open<Tables>(locationOf(options), schema))
  }

  /** Opens the database without migrating it. */
  static async connect(options: StoreOptions): Promise<Store> {
    return new Store(await Database.connect<Tables>(locationOf(options)))
  }

  /** Returns unused space to the file system in small steps. Postgres does that by itself. */
  giveBack(): Promise<void> {
    return this.#database.giveBack()
  }

  /** Reserves disk space again after a full disk. */
  putBy(): void {
    this.#database.reserveDisk()
  }

  /** The size of the database in bytes; 0 for Postgres. */
  size(): Promise<number> {
    return this.#database.size()
  }

  ping(): Promise<void> {
    return this.#database.ping()
  }

  close(): Promise<void> {
    return this.#database.close()
  }
}

function locationOf({ db_url, db_path }: StoreOptions) {
  return db_url === undefined ? { file: db_path } : { url: db_url }
}

const onFullDisk: FullDiskRules = {
  essential: new Set([
    'Sessions.update',
    'Sessions.forget',
    'Sessions.forgetIdempotency',
    'Sessions.forgetStarts',
    'Sessions.prune',
    'Sessions.pruneBeyond',
    'Execs.delete',
    'Execs.prune',
    'Execs.dropOldest',
    'Records.prune',
    'Snapshots.delete',
    'Volumes.beginDelete',
    'Volumes.setState',
    'Volumes.delete',
    'SecretRows.delete',
    'SecretRows.dropInline',
    'Ports.delete',
    'Fronts.delete',
    'Keys.revoke',
  ]),
  growing: new Set([
    'Sessions.insert',
    'Sessions.insertAll',
    'Execs.insert',
    'Execs.update',
    'Records.addEvents',
    'Records.addAudit',
    'Snapshots.insert',
    'Volumes.insert',
    'SecretRows.put',
    'Ports.put',
    'Fronts.put',
    'Fronts.insert',
    'Keys.insert',
    'Keys.insertProject',
  ]),
}
