import { sql } from 'kysely'
import type { Migration } from '../migrate.ts'

/**
 * The encrypted columns of one program. The row `key_id` of its table of facts (`name`, `value`) has the id of the key
 * that all of them are encrypted with.
 */
export interface SealedSchema {
  /** The table of facts. Programs that share a database have their own. */
  readonly facts: string
  /** Postgres' function that checks the key; see `keyGuard`. */
  readonly check: string
  readonly columns: ReadonlyArray<{ readonly table: string; readonly column: string }>
}

/** Whether a write was refused because its value is not encrypted with the current key. */
export function isStaleKey(error: unknown): boolean {
  const { code, errcode, cause } = error as { code?: unknown; errcode?: unknown; cause?: unknown }
  if (cause instanceof Error) return isStaleKey(cause)
  // SQLITE_CONSTRAINT_TRIGGER; our databases have no other triggers.
  return errcode === 1811 || code === staleKeyState
}

/** An SQLSTATE of our own. */
const staleKeyState = 'SKKEY'

/**
 * From now on the database refuses a value that is not encrypted with the current key, also from a process that does
 * not know about a rotation yet.
 */
export function keyGuard(schema: SealedSchema): Migration['up'] {
  return async (db, kind) => {
    const { facts, check } = schema
    if (kind === 'postgres')
      await sql`
        create function ${sql.id(check)}() returns trigger language plpgsql as $body$
        declare
          sealed text := to_jsonb(new) ->> tg_argv[0];
          current text := (select 'sk1:' || value || ':' from ${sql.table(facts)} where name = 'key_id');
        begin
          if sealed is not null and left(sealed, 21) is distinct from current then
            raise exception 'The value is not encrypted with the current key.' using errcode = 'SKKEY';
          end if;
          return new;
        end $body$`.execute(db)
    await guardColumns(schema)(db, kind)
  }
}

/** The same for columns that a later migration has added. */
export function guardColumns({ facts, check, columns }: SealedSchema): Migration['up'] {
  return async (db, kind) => {
    for (const { table, column } of columns)
      for (const event of ['insert', 'update'] as const) {
        const name = sql.ref(`${table}_${column}_${event}`)
        const when = event === 'insert' ? sql`insert` : sql`update of ${sql.ref(column)}`
        if (kind === 'postgres')
          await sql`
            create trigger ${name} before ${when} on ${sql.table(table)}
            for each row execute function ${sql.id(check)}(${sql.lit(column)})`.execute(db)
        else
          await sql`
            create trigger ${name} before ${when} on ${sql.table(table)}
            when new.${sql.ref(column)} is not null
              and substr(new.${sql.ref(column)}, 1, 21) is not
                (select 'sk1:' || value || ':' from ${sql.table(facts)} where name = 'key_id')
            begin select raise(abort, 'The value is not encrypted with the current key.'); end`.execute(db)
      }
  }
}
