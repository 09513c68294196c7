import { SandboxError, type VolumeAdmin } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import type { Caller } from '../../keys/index.ts'
import type { VolumeRow } from '../../store/index.ts'
import type { Context } from '../context.ts'
import { volumeQuotaCheck } from '../limits/quotas.ts'
import { noVolume, volumeName } from './names.ts'

/** A volume with what callers may know of it now. */
export interface Volume {
  readonly row: VolumeRow
  /** Undefined if it is not known without reading the whole volume. */
  readonly sizeBytes?: number
  /** The session that may write to it. */
  readonly writer?: string
}

/**
 * Volumes of projects. The row is written before the provider's volume exists, and removed after it is gone. So every
 * interrupted change leaves a row in `creating` or `deleting`, which `finishChanges` removes together with the
 * volume: no client learned of it.
 */
export class VolumesOfProjects {
  readonly #context: Context
  /** Changes in progress in this process, by the volume's id. */
  readonly #changing = new Set<string>()
  /** Set by `tidy`: some isolators have no volumes. */
  #available = false

  constructor(context: Context) {
    this.#context = context
  }

  /** `limitMb`: 0 means no limit; undefined, the configured default. */
  async create(caller: Caller, { name, limitMb }: { name: string; limitMb?: number }): Promise<Volume> {
    const { store, instanceId, config, events, log } = this.#context
    if (!volumeName.test(name)) throw invalidName(name)
    const { max, defaults } = config
    const limit = limitMb ?? Math.min(defaults.volume_limit_mb ?? 0, max.volume_limit_mb)
    if (limit > max.volume_limit_mb)
      throw new SandboxError('invalid_argument', `limit_mb exceeds the limit of ${max.volume_limit_mb}.`, {
        hint: 'Ask for less, or raise max.volume_limit_mb.',
      })
    const volumes = this.#provided()
    const id = randomId()
    const row: VolumeRow = {
      id,
      project_id: caller.projectId,
      instance_id: instanceId,
      name,
      state: 'creating',
      provider_name: `${instanceId}.${id}`,
      limit_mb: limit === 0 ? null : limit,
      created_at: Date.now(),
    }
    return this.#change(id, async () => {
      const check = await volumeQuotaCheck(this.#context, caller, {
        limitMb: row.limit_mb,
        unlimitedMb: await this.#unlimitedMb(caller),
      })
      if ((await store.volumes.insert(row, check)) === 'name-taken') throw nameTaken(name)
      try {
        await volumes.create(row.provider_name, { limitMb: row.limit_mb ?? undefined })
        await store.volumes.setState(id, ['creating'], 'ready')
      } catch (error) {
        await this.#finish(row).catch((cleanUp) =>
          log.warn({ volume: id, err: cleanUp }, 'cannot undo a failed create; reconciliation will retry'),
        )
        throw error
      }
      events.publish({ projectId: caller.projectId, type: 'volume.created', data: { volume: name } })
      return { row: { ...row, state: 'ready' }, sizeBytes: 0 }
    })
  }

  async get(caller: Caller, name: string): Promise<Volume> {
    const { store, instanceId, provider } = this.#context
    const row = await this.#find(caller, name)
    const writer = (await store.volumes.writers(caller.projectId)).get(row.id)
    if (row.instance_id !== instanceId || row.state === 'lost' || !provider.volumes) return { row, writer }
    const info = await provider.volumes.get(row.provider_name).catch((error) => {
      // Being deleted by another request, or lost since the start.
      if (!SandboxError.is(error, 'not_found', 'file_not_found')) throw error
    })
    return { row, writer, sizeBytes: info?.sizeBytes }
  }

  /** Newest first. Sizes that must be measured are left out. */
  async list(
    caller: Caller,
    options: { limit: number; after?: { createdAt: number; id: string } },
  ): Promise<Volume[]> {
    const { store } = this.#context
    const rows = await store.volumes.list(caller.projectId, options)
    const writers =
      rows.length > 0 ? await store.volumes.writers(caller.projectId) : new Map<string, string>()
    return rows.map((row) => ({ row, writer: writers.get(row.id) }))
  }

  /** Throws `conflict` while a session, even a stopped one, mounts the volume. */
  async delete(caller: Caller, name: string): Promise<void> {
    const { store, instanceId, events, log } = this.#context
    const { id } = await this.#find(caller, name)
    await this.#change(id, async () => {
      const row = await store.volumes.beginDelete(caller.projectId, name, (sessions) => {
        if (sessions.length > 0) throw inUse(name, sessions)
      })
      if (!row) throw noVolume(name)
      events.publish({ projectId: caller.projectId, type: 'volume.deleted', data: { volume: name } })
      // The daemon that keeps the volume removes it within half a minute.
      if (row.instance_id !== instanceId) return
      await this.#finish(row).catch((error) =>
        log.warn({ volume: id, err: error }, 'cannot remove a deleted volume; reconciliation will retry'),
      )
    })
  }

  /** Removes volumes whose create or delete was interrupted. */
  async finishChanges(): Promise<void> {
    if (!this.#available) return
    const { store, instanceId, log } = this.#context
    for (const row of await store.volumes.ofInstance(instanceId, ['creating', 'deleting'])) {
      if (this.#changing.has(row.id)) continue
      await this.#change(row.id, () => this.#finish(row)).catch((error) =>
        log.warn({ volume: row.id, err: error }, 'cannot remove a volume; reconciliation will retry'),
      )
    }
  }

  /**
   * Runs once at the start. Compares rows with the provider's volumes in both directions. Volumes are listed before
   * rows are read, so one without a row has no owner.
   */
  async tidy(): Promise<void> {
    const { store, instanceId, provider, log } = this.#context
    const found = await provider.volumes?.list().catch((error) => {
      if (!SandboxError.is(error, 'unsupported')) throw error
    })
    this.#available = found !== undefined
    if (!found) return
    const names = new Set(found.map(({ name }) => name).filter((name) => name.startsWith(`${instanceId}.`)))
    const rows = await store.volumes.ofInstance(instanceId)
    for (const { id, name, provider_name, state } of rows) {
      const exists = names.delete(provider_name)
      if (state === 'ready' && !exists && (await store.volumes.setState(id, ['ready'], 'lost')))
        log.error({ volume: id, name }, 'the content of a volume is missing')
      if (state === 'lost' && exists) await store.volumes.setState(id, ['lost'], 'ready')
    }
    for (const name of names) {
      log.info({ volume: name }, 'removing a volume without a row')
      await provider.volumes
        ?.remove(name)
        .catch((error) => log.warn({ volume: name, err: error }, 'cannot remove a volume without a row'))
    }
  }

  async #finish({ id, provider_name }: VolumeRow): Promise<void> {
    await this.#provided().remove(provider_name)
    await this.#context.store.volumes.delete(id)
  }

  async #find(caller: Caller, name: string): Promise<VolumeRow> {
    // Postgres refuses to compare with a text that holds NUL.
    const row = volumeName.test(name)
      ? await this.#context.store.volumes.get(caller.projectId, name)
      : undefined
    if (row) return row
    throw noVolume(name)
  }

  async #change<T>(id: string, work: () => Promise<T>): Promise<T> {
    this.#changing.add(id)
    try {
      return await work()
    } finally {
      this.#changing.delete(id)
    }
  }

  /** The size of the project's volumes that have no limit. */
  async #unlimitedMb(caller: Caller): Promise<number> {
    let bytes = 0
    for (const { provider_name, state } of await this.#context.store.volumes.unlimited(caller.projectId))
      if (state === 'ready')
        bytes += await this.#provided()
          .get(provider_name)
          .then(({ sizeBytes = 0 }) => sizeBytes)
          .catch((error) => {
            if (SandboxError.is(error, 'not_found', 'file_not_found')) return 0
            throw error
          })
    return Math.ceil(bytes / 1024 / 1024)
  }

  #provided(): VolumeAdmin {
    const { volumes } = this.#context.provider
    if (volumes && this.#available) return volumes
    throw new SandboxError('unsupported', 'This daemon has no volumes.', { hint: 'Use the isolator oci.' })
  }
}

function invalidName(name: string): SandboxError {
  return new SandboxError('invalid_argument', `${JSON.stringify(name)} is not a valid volume name.`, {
    hint: 'Use 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit.',
  })
}

function nameTaken(name: string): SandboxError {
  return new SandboxError('conflict', `The volume ${JSON.stringify(name)} already exists.`, {
    details: { volume: name },
    hint: 'Choose another name, or use that volume.',
  })
}

function inUse(name: string, sessions: readonly string[]): SandboxError {
  const shown = sessions.slice(0, 10)
  const more = sessions.length > shown.length ? ` and ${sessions.length - shown.length} more` : ''
  return new SandboxError(
    'conflict',
    `The volume ${JSON.stringify(name)} is used by ${shown.join(', ')}${more}.`,
    {
      details: { volume: name, session_ids: shown },
      hint: 'Destroy these sessions first.',
    },
  )
}
