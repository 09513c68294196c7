import { SandboxError } from '@sandkasten/sdk'
import { type Quotas, quotasSchema } from '../../config/index.ts'
import type { Caller } from '../../keys/index.ts'
import type { Usage, VolumeUsage } from '../../store/index.ts'
import type { Context } from '../context.ts'

/** The usage that a create, a fork or a start adds to its project. */
export interface Wanted {
  readonly sessions: number
  readonly cpu: number
  readonly memoryMb: number
  /** For each new session; 0 means no limit. */
  readonly diskMb: number
}

type Asking = Pick<Caller, 'projectId' | 'quotas'>

/** The project's own quotas, completed with those of the configuration. */
export async function quotasOf({ store, config }: Context, caller: Asking): Promise<Quotas> {
  const written =
    caller.quotas === undefined ? (await store.keys.project(caller.projectId))?.quotas : caller.quotas
  const own = written ? quotasSchema.parse(JSON.parse(written)) : {}
  return { ...config.quotas, ...own }
}

/**
 * Returns the check for the transaction that writes the change. Undefined when the project has no quotas, so nothing
 * needs to be counted.
 */
export async function quotaCheck(
  context: Context,
  caller: Asking,
  wanted: Wanted,
): Promise<((usage: Usage) => void) | undefined> {
  const quotas = await quotasOf(context, caller)
  if (Object.values(quotas).every((limit) => limit === undefined)) return undefined
  const { disk_limit_mb: defaultDiskMb } = context.config.defaults
  return (usage) => checkQuotas(quotas, usage, wanted, defaultDiskMb)
}

/** Throws `quota_exceeded` for the first quota that would be exceeded. */
export function checkQuotas(
  quotas: Quotas,
  usage: Usage,
  wanted: Wanted,
  defaultDiskMb: number | undefined,
): void {
  if (quotas.disk_mb !== undefined && wanted.sessions > 0 && wanted.diskMb === 0 && !defaultDiskMb)
    throw new SandboxError(
      'quota_exceeded',
      'The project has a disk quota, but this session has no disk limit.',
      {
        details: { quota: 'disk_mb', limit: quotas.disk_mb },
        hint: 'Set limits.disk_mb in the request, or defaults.disk_limit_mb in the configuration.',
      },
    )
  // A disk without a limit counts with the default size.
  const diskMb = (wanted.diskMb || (defaultDiskMb ?? 0)) * wanted.sessions
  const more = { sessions: wanted.sessions, cpu: wanted.cpu, mem_mb: wanted.memoryMb, disk_mb: diskMb }
  const used = { ...usage, disk_mb: usage.disk_mb + usage.unlimited_disks * (defaultDiskMb ?? 0) }
  for (const name of ['sessions', 'cpu', 'mem_mb', 'disk_mb'] as const) {
    const limit = quotas[name]
    if (limit === undefined || more[name] === 0 || used[name] + more[name] <= limit) continue
    throw new SandboxError(
      'quota_exceeded',
      `The project’s quota of ${words[name]} is ${limit}; ${used[name]} are in use.`,
      {
        details: { quota: name, limit, used: used[name], wanted: more[name] },
        hint: 'Destroy or stop sessions that are not needed, or have the quota raised.',
      },
    )
  }
}

/** Used when neither the project nor the configuration sets a quota. */
const SNAPSHOTS = 100
const SNAPSHOT_MB = 102_400

/**
 * Snapshots in progress, which have no row yet. They count too, so that parallel requests do not exceed the quota.
 */
const beingMade = new Map<string, number>()

/** Runs `make` unless the project's quota for the number or the size of snapshots is used up. */
export async function withinSnapshotQuota<T>(
  context: Context,
  projectId: string,
  make: () => Promise<T>,
): Promise<T> {
  const { store, config } = context
  const pending = beingMade.get(projectId) ?? 0
  beingMade.set(projectId, pending + 1)
  try {
    const written = (await store.keys.project(projectId))?.quotas
    const own = written ? quotasSchema.parse(JSON.parse(written)) : {}
    const { snapshots = SNAPSHOTS, snapshot_mb = SNAPSHOT_MB } = { ...config.quotas, ...own }
    const usage = await store.snapshots.usage(projectId)
    const usedMb = Math.ceil(usage.bytes / 1024 / 1024)
    if (usage.snapshots + pending >= snapshots)
      throw tooMany('snapshots', 'snapshots', 'snapshots', snapshots, usage.snapshots + pending)
    if (usedMb >= snapshot_mb)
      throw tooMany('snapshots', 'snapshot_mb', 'megabytes of snapshots', snapshot_mb, usedMb)
    return await make()
  } finally {
    const left = (beingMade.get(projectId) ?? 1) - 1
    if (left > 0) beingMade.set(projectId, left)
    else beingMade.delete(projectId)
  }
}

const VOLUMES = 100
const VOLUME_MB = 102_400

/**
 * Returns the check for the transaction that writes a new volume. `unlimitedMb` is the size of the project's volumes
 * that have no limit; such a volume counts with its size.
 */
export async function volumeQuotaCheck(
  context: Context,
  caller: Asking,
  wanted: { limitMb: number | null; unlimitedMb: number },
): Promise<(usage: VolumeUsage) => void> {
  const { volumes = VOLUMES, volume_mb = VOLUME_MB } = await quotasOf(context, caller)
  return (usage) => {
    if (usage.volumes >= volumes) throw tooMany('volumes', 'volumes', 'volumes', volumes, usage.volumes)
    const usedMb = usage.limit_mb + wanted.unlimitedMb
    if (usedMb + (wanted.limitMb ?? 1) > volume_mb)
      throw tooMany('volumes', 'volume_mb', 'megabytes of volumes', volume_mb, usedMb)
  }
}

function tooMany(items: string, quota: string, what: string, limit: number, used: number): SandboxError {
  return new SandboxError(
    'quota_exceeded',
    `The project’s quota of ${what} is ${limit}; ${used} are in use.`,
    {
      details: { quota, limit, used },
      hint: `Delete ${items} that are not needed, or have quotas.${quota} raised.`,
    },
  )
}

const words = {
  sessions: 'sessions',
  cpu: 'processors',
  mem_mb: 'megabytes of memory',
  disk_mb: 'megabytes of disk',
}
