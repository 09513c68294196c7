import { spawnSync } from 'node:child_process'
import { Database, type DatabaseLocation } from '@sandkasten/database'
import type { SandboxRow, Tables } from '../tables.ts'

/** The newest row with this name, also of a tombstone, read by a connection of its own. */
export async function readRow(location: DatabaseLocation, name: string): Promise<SandboxRow> {
  return beside(location, ({ db }) =>
    db
      .selectFrom('sandboxes')
      .selectAll()
      .where('name', '=', name)
      .orderBy('live', 'desc')
      .orderBy('created_at', 'desc')
      .orderBy('updated_at', 'desc')
      .limit(1)
      .executeTakeFirstOrThrow(),
  )
}

/** Makes the process that holds the sandbox's lease a dead one, as if it had been killed right now. */
export async function killHolder(location: DatabaseLocation, name: string): Promise<void> {
  await beside(location, async ({ db }) => {
    const { id, lease_holder } = await db
      .selectFrom('sandboxes')
      .select(['id', 'lease_holder'])
      .where('name', '=', name)
      .where('lease_holder', 'is not', null)
      .executeTakeFirstOrThrow()
    const dead = { ...JSON.parse(lease_holder!), pid: spawnSync('true').pid }
    await db
      .updateTable('sandboxes')
      .set({ lease_holder: JSON.stringify(dead) })
      .where('id', '=', id)
      .execute()
  })
}

async function beside<T>(
  location: DatabaseLocation,
  work: (database: Database<Tables>) => Promise<T>,
): Promise<T> {
  const database = await Database.connect<Tables>(location)
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}
