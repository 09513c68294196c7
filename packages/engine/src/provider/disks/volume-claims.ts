import { SandboxError } from '@sandkasten/sdk'
import { isAlive, type SandboxRecord } from '@sandkasten/sdk/internal'
import type { HostMount } from '../../isolators/isolator.ts'
import type { Trees } from '../../layers/index.ts'
import { Volumes } from '../../volumes/volumes.ts'
import type { WriterClaim } from '../../volumes/writers.ts'
import { extraOf } from '../spec.ts'
import type { Sandboxes } from './disks.ts'

/** The volumes of a root, and the claims of its sandboxes to write to them. */
export class VolumeClaims {
  readonly volumes: Volumes
  readonly #sandboxes: Sandboxes

  constructor(sandboxes: Sandboxes, trees: Trees) {
    this.#sandboxes = sandboxes
    this.volumes = new Volumes(sandboxes.root, trees, {
      usersOf: async (name) => {
        const users = (await sandboxes.records()).filter((record) =>
          extraOf(record).volumes.some((volume) => volume.name === name),
        )
        return users.map(({ sandboxId }) => sandboxId)
      },
      lives: (claim) => this.#isLive(claim),
    })
  }

  mountsOf(record: SandboxRecord): HostMount[] {
    return extraOf(record).volumes.map(({ name, target, readOnly }) => ({
      ...this.volumes.sourceOf(name),
      target,
      readOnly: readOnly ?? false,
      ofSandboxes: true,
    }))
  }

  async claim(record: SandboxRecord): Promise<void> {
    const { volumes } = extraOf(record)
    if (volumes.length > 0) await this.volumes.need(volumes.map(({ name }) => name))
    for (const { name, readOnly } of volumes)
      if (!readOnly) await this.volumes.writers.take(name, record.sandboxId, record.incarnation)
  }

  async unclaim(record: SandboxRecord): Promise<void> {
    for (const { name, readOnly } of extraOf(record).volumes)
      if (!readOnly) await this.volumes.writers.giveUp(name, record.sandboxId)
  }

  /** The record of a starting sandbox is not updated yet, so check that the process that starts it is alive. */
  async #isLive({ sandboxId, incarnation, by }: WriterClaim): Promise<boolean> {
    const record = await this.#sandboxes.current(sandboxId).catch((error) => {
      if (!SandboxError.is(error, 'not_found')) throw error
    })
    if (!record) return false
    const runs = record.status === 'running' || record.status === 'paused'
    return (
      (runs && record.incarnation === incarnation) || (record.status !== 'running' && (await isAlive(by)))
    )
  }
}

/** A copy runs beside its origin, so it cannot write to the same volume. */
export function refuseForkOfWriter(record: SandboxRecord): void {
  const writable = extraOf(record).volumes.find(({ readOnly }) => !readOnly)
  if (!writable) return
  const { sandboxId } = record
  throw new SandboxError(
    'conflict',
    `The sandbox ${sandboxId} writes to the volume “${writable.name}”, so it cannot be forked.`,
    {
      sandboxId,
      details: { volume: writable.name },
      hint: 'Create a snapshot, and create sandboxes from it that mount the volume read-only.',
    },
  )
}
