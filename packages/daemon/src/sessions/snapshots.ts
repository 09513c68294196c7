import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import type { Caller } from '../keys/index.ts'
import type { SnapshotRow } from '../store/index.ts'
import type { Context, Sandbox, Session } from './context.ts'
import type { Creator } from './create.ts'
import { checkQuotas, quotasOf } from './quotas.ts'
import type { Use } from './use.ts'

/** Saved disks, and copies of sessions. They belong to the project, not to the session that they came from. */
export class SnapshotsOfSessions {
  readonly #context: Context
  readonly #use: Use
  readonly #creator: Creator

  constructor(context: Context, use: Use, creator: Creator) {
    this.#context = context
    this.#use = use
    this.#creator = creator
  }

  create(caller: Caller, id: string, name: string | undefined, signal?: AbortSignal): Promise<SnapshotRow> {
    const { store, instanceId, events } = this.#context
    return this.#use.use(caller, id, async ({ sandbox, session }) => {
      const { snapshotId } = await sandbox.snapshot({ ...(name === undefined ? {} : { name }), signal })
      const row: SnapshotRow = {
        id: randomId(),
        project_id: session.project_id,
        instance_id: instanceId,
        session_id: id,
        name: name ?? null,
        provider_id: snapshotId,
        image: session.image,
        size_bytes: await this.#size(snapshotId),
        created_at: Date.now(),
      }
      await store.snapshots.insert(row)
      events.publish({
        projectId: caller.projectId,
        sessionId: id,
        type: 'snapshot.created',
        data: { snapshot: row.id },
      })
      return row
    })
  }

  async get(caller: Caller, id: string): Promise<SnapshotRow> {
    const row = await this.#context.store.snapshots.get(caller.projectId, id)
    if (row) return row
    throw new SandboxError('not_found', `There is no snapshot ${id}.`, { hint: 'See GET /v1/snapshots.' })
  }

  list(
    caller: Caller,
    options: { sessionId?: string; limit: number; after?: { createdAt: number; id: string } },
  ): Promise<SnapshotRow[]> {
    return this.#context.store.snapshots.list(caller.projectId, options)
  }

  /** False when it was gone already. */
  async delete(caller: Caller, id: string): Promise<boolean> {
    const { store, provider, instanceId, events } = this.#context
    const row = await this.get(caller, id)
    if (row.instance_id === instanceId) await provider.deleteSnapshot(row.provider_id)
    const deleted = await store.snapshots.delete(caller.projectId, id)
    if (deleted)
      events.publish({ projectId: caller.projectId, type: 'snapshot.deleted', data: { snapshot: id } })
    return deleted
  }

  /** Running copies; one that could not be made is its error, in its place. `names` are theirs, in order. */
  fork(
    caller: Caller,
    id: string,
    count: number,
    signal?: AbortSignal,
    names: readonly string[] = [],
  ): Promise<Array<Session | Error>> {
    return this.#use.use(caller, id, async ({ sandbox, session }) => {
      const quotas = await quotasOf(this.#context, caller.projectId)
      const usage = await this.#context.store.sessions.usage(caller.projectId)
      const plan = {
        cpu: session.cpu * count,
        memoryMb: session.mem_mb * count,
        diskMb: session.disk_mb * count,
      }
      checkQuotas(quotas, { ...usage, sessions: usage.sessions + count - 1 }, plan)
      const copies = await sandbox.fork({ count, signal })
      return Promise.all(
        copies.map((copy, at) =>
          copy instanceof Error ? copy : this.#adopt(caller, session, copy as Sandbox, names[at]),
        ),
      )
    })
  }

  async #adopt(
    caller: Caller,
    origin: Session,
    copy: Sandbox,
    name: string | undefined,
  ): Promise<Session | Error> {
    try {
      return await this.#creator.adopt(caller, origin, copy, name)
    } catch (error) {
      await copy.destroy().catch(() => {})
      return error as Error
    }
  }

  async #size(providerId: string): Promise<number | null> {
    const found = (await this.#context.provider.listSnapshots()).find(
      ({ snapshotId }) => snapshotId === providerId,
    )
    return found?.sizeBytes ?? null
  }
}
