import { SandboxError } from '@sandkasten/sdk'
import type { Caller } from '../keys/index.ts'
import type { SnapshotRow } from '../store/index.ts'
import type { Context, Sandbox, Session } from './context.ts'
import type { Creator } from './create.ts'
import type { Meant } from './lifecycle.ts'
import { withinSnapshotQuota } from './limits/quotas.ts'
import { checkName } from './limits/request-limits.ts'
import { saveDisk } from './save-disk.ts'
import type { Use, Used } from './use.ts'
import { refuseForkOfWriter } from './volumes/mounts.ts'

/** Snapshots and forks of sessions. They belong to the project, not to the session that they came from. */
export class SnapshotsOfSessions {
  readonly #context: Context
  readonly #use: Use
  readonly #creator: Creator

  constructor(context: Context, use: Use, creator: Creator) {
    this.#context = context
    this.#use = use
    this.#creator = creator
  }

  async create(
    caller: Caller,
    id: string,
    { name, signal, ...meant }: Meant & { name?: string; signal?: AbortSignal },
  ): Promise<SnapshotRow> {
    checkName(name)
    const work = async ({ sandbox, session }: Used) => {
      const row = await withinSnapshotQuota(this.#context, caller.projectId, () =>
        saveDisk(this.#context, session, sandbox, { name, signal }),
      )
      this.#context.events.publish({
        projectId: caller.projectId,
        sessionId: id,
        type: 'snapshot.created',
        data: { snapshot: row.id },
      })
      return row
    }
    return this.#use.use(caller, id, work, meant)
  }

  find(caller: Caller, id: string): Promise<SnapshotRow | undefined> {
    return this.#context.store.snapshots.get(caller.projectId, id)
  }

  async get(caller: Caller, id: string): Promise<SnapshotRow> {
    const row = await this.find(caller, id)
    if (row) return row
    throw new SandboxError('not_found', `There is no snapshot ${id}.`, {
      hint: {
        sdk: 'See listSnapshots().',
        http: 'See GET /v1/snapshots.',
        cli: 'See sandkasten snapshot list.',
      },
    })
  }

  list(
    caller: Caller,
    options: { sessionId?: string; limit: number; after?: { createdAt: number; id: string } },
  ): Promise<SnapshotRow[]> {
    return this.#context.store.snapshots.list(caller.projectId, options)
  }

  /** False when it was already deleted. The row goes first; the next start removes a disk that is left behind. */
  async delete(caller: Caller, id: string): Promise<boolean> {
    const { store, provider, instanceId, events, log } = this.#context
    const row = await this.get(caller, id)
    if (!(await store.snapshots.delete(caller.projectId, id))) return false
    events.publish({ projectId: caller.projectId, type: 'snapshot.deleted', data: { snapshot: id } })
    if (row.instance_id === instanceId)
      await provider
        .deleteSnapshot(row.provider_id)
        .catch((error) =>
          log.warn(
            { snapshot: id, err: error },
            'cannot remove the disk of a deleted snapshot; the next start removes it',
          ),
        )
    return true
  }

  /** Creates running copies, with `names` in order. A copy that failed is returned as its error. */
  async fork(
    caller: Caller,
    id: string,
    options: Meant & { count: number; names?: readonly string[]; signal?: AbortSignal },
  ): Promise<Array<Session | Error>> {
    const { count, names = [], signal, ...meant } = options
    for (const name of names) checkName(name)
    const work = ({ sandbox, session }: Used) => {
      refuseForkOfWriter(session)
      const wanted = Array.from({ length: count }, (_, at) => names[at])
      const make = async (count: number) =>
        count === 0 ? [] : ((await sandbox.fork({ count, signal })) as Array<Sandbox | Error>)
      return this.#creator.fork(caller, session, wanted, make)
    }
    return this.#use.use(caller, id, work, meant)
  }
}
