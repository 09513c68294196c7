import { isDuplicate } from '@sandkasten/database'
import type { Kysely } from 'kysely'
import type { SessionRow, Tables, VolumeRow, VolumeState } from './tables.ts'
import { takeTurn } from './turn.ts'

/** A volume of a session, as its row remembers it. */
export interface SessionVolume {
  readonly id: string
  readonly name: string
  readonly path: string
  readonly read_only: boolean
  /** The provider's name of the volume. */
  readonly provider_name: string
}

export interface VolumeUsage {
  volumes: number
  /** The sum of all limits. */
  limit_mb: number
}

/** What a project's volumes are used for, read under the project's lock. */
export interface VolumesInUse {
  /** The ids of volumes that can be mounted. */
  readonly ready: ReadonlySet<string>
  /** The session that may write to a volume, by the volume's id. */
  readonly writers: ReadonlyMap<string, string>
}

/** Throws when a session cannot have its volumes. */
export type CheckVolumes = (found: VolumesInUse) => void

/** States of volumes that callers know. The others are changes in progress, or were interrupted by a crash. */
const known: readonly VolumeState[] = ['ready', 'lost']

export class Volumes {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async get(projectId: string, name: string): Promise<VolumeRow | undefined> {
    return this.#known(projectId).where('name', '=', name).executeTakeFirst()
  }

  /** Newest first. */
  async list(
    projectId: string,
    { limit, after }: { limit: number; after?: { createdAt: number; id: string } },
  ): Promise<VolumeRow[]> {
    let query = this.#known(projectId)
    if (after)
      query = query.where((eb) =>
        eb.or([
          eb('created_at', '<', after.createdAt),
          eb.and([eb('created_at', '=', after.createdAt), eb('id', '<', after.id)]),
        ]),
      )
    return query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).execute()
  }

  /** All volumes of one daemon, also those that callers do not know. */
  async ofInstance(instanceId: string, states?: readonly VolumeState[]): Promise<VolumeRow[]> {
    const query = this.#db.selectFrom('volumes').selectAll().where('instance_id', '=', instanceId)
    return (states ? query.where('state', 'in', states) : query).execute()
  }

  /** A project's volumes without a limit, which are not in `usage`. */
  async unlimited(projectId: string): Promise<VolumeRow[]> {
    return this.#known(projectId).where('limit_mb', 'is', null).execute()
  }

  #known(projectId: string) {
    return this.#db
      .selectFrom('volumes')
      .selectAll()
      .where('project_id', '=', projectId)
      .where('state', 'in', known)
  }

  usage(projectId: string): Promise<VolumeUsage> {
    return usageOf(this.#db, projectId)
  }

  /** Inserts a volume if `check` finds room in the project. Creates of one project run one after another. */
  async insert(row: VolumeRow, check: (usage: VolumeUsage) => void): Promise<'created' | 'name-taken'> {
    try {
      await this.#db.transaction().execute(async (trx) => {
        await takeTurn(trx, row.project_id)
        check(await usageOf(trx, row.project_id))
        await trx.insertInto('volumes').values(row).execute()
      })
      return 'created'
    } catch (error) {
      if (isDuplicate(error)) return 'name-taken'
      throw error
    }
  }

  /**
   * Marks a volume as being deleted, if `check` allows it with the sessions that mount it. From then on no session can
   * mount it, and its name is free. Undefined when there is no such volume.
   */
  async beginDelete(
    projectId: string,
    name: string,
    check: (sessionIds: readonly string[]) => void,
  ): Promise<VolumeRow | undefined> {
    return this.#db.transaction().execute(async (trx) => {
      await takeTurn(trx, projectId)
      const row = await trx
        .selectFrom('volumes')
        .selectAll()
        .where('project_id', '=', projectId)
        .where('name', '=', name)
        .where('state', 'in', known)
        .executeTakeFirst()
      if (!row) return undefined
      const sessions = await mountingSessions(trx, projectId)
      check(sessions.filter(({ volumes }) => volumes.some(({ id }) => id === row.id)).map(({ id }) => id))
      await trx.updateTable('volumes').set({ state: 'deleting' }).where('id', '=', row.id).execute()
      return row
    })
  }

  /** Changes the state of a volume that is in one of the states `from`. False if it is in another one. */
  async setState(id: string, from: readonly VolumeState[], state: VolumeState): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('volumes')
      .set({ state })
      .where('id', '=', id)
      .where('state', 'in', from)
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }

  async delete(id: string): Promise<void> {
    await this.#db.deleteFrom('volumes').where('id', '=', id).execute()
  }

  /** The sessions that may write to a project's volumes now, by the volume's id. */
  async writers(projectId: string): Promise<ReadonlyMap<string, string>> {
    return writersOf(await mountingSessions(this.#db, projectId))
  }
}

/** Runs `check` on the volumes of a session that is about to run. The caller holds the project's lock. */
export async function checkVolumes(
  trx: Kysely<Tables>,
  { id, project_id, volumes }: Pick<SessionRow, 'id' | 'project_id' | 'volumes'>,
  check: CheckVolumes,
): Promise<void> {
  const ids = volumesOf({ volumes }).map((volume) => volume.id)
  const ready = await trx
    .selectFrom('volumes')
    .select('id')
    .where('id', 'in', ids)
    .where('state', '=', 'ready')
    .execute()
  const others = (await mountingSessions(trx, project_id)).filter((session) => session.id !== id)
  check({ ready: new Set(ready.map((row) => row.id)), writers: writersOf(others) })
}

export function volumesOf({ volumes }: Pick<SessionRow, 'volumes'>): readonly SessionVolume[] {
  return JSON.parse(volumes)
}

interface Mounting {
  readonly id: string
  readonly holds: boolean
  readonly volumes: readonly SessionVolume[]
}

/** The live sessions of a project that mount volumes. A session holds them while its sandbox runs or starts. */
async function mountingSessions(db: Kysely<Tables>, projectId: string): Promise<Mounting[]> {
  const rows = await db
    .selectFrom('sessions')
    .select(['id', 'volumes', 'status', 'starting'])
    .where('project_id', '=', projectId)
    .where('live', '=', 1)
    .where('volumes', '<>', '[]')
    .execute()
  return rows.map(({ id, volumes, status, starting }) => ({
    id,
    holds: starting === 1 || ['creating', 'running', 'paused'].includes(status),
    volumes: volumesOf({ volumes }),
  }))
}

function writersOf(sessions: readonly Mounting[]): Map<string, string> {
  const holding = sessions.filter(({ holds }) => holds)
  return new Map(
    holding.flatMap((session) =>
      session.volumes.filter((volume) => !volume.read_only).map((volume) => [volume.id, session.id] as const),
    ),
  )
}

async function usageOf(db: Kysely<Tables>, projectId: string): Promise<VolumeUsage> {
  const row = await db
    .selectFrom('volumes')
    .select((eb) => [eb.fn.countAll().as('volumes'), eb.fn.sum('limit_mb').as('limit_mb')])
    .where('project_id', '=', projectId)
    .executeTakeFirstOrThrow()
  return { volumes: Number(row.volumes), limit_mb: Number(row.limit_mb ?? 0) }
}
