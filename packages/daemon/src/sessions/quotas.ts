import { SandboxError } from '@sandkasten/sdk'
import { type Quotas, quotasSchema } from '../config/index.ts'
import type { Caller } from '../keys/index.ts'
import type { Usage } from '../store/index.ts'
import type { Context } from './context.ts'
import type { Plan } from './plan.ts'

/** The project's own quotas, and where it has none those of the configuration. */
export async function quotasOf({ store, config }: Context, caller: Caller): Promise<Quotas> {
  const written =
    caller.quotas === undefined ? (await store.keys.project(caller.projectId))?.quotas : caller.quotas
  const own = written ? quotasSchema.parse(JSON.parse(written)) : {}
  return { ...config.quotas, ...own }
}

/** Throws when one more session would be too much, and says of what. */
export function checkQuotas(
  quotas: Quotas,
  usage: Usage,
  plan: Pick<Plan, 'cpu' | 'memoryMb' | 'diskMb'>,
): void {
  const wanted = { sessions: 1, cpu: plan.cpu, mem_mb: plan.memoryMb, disk_mb: plan.diskMb }
  for (const name of ['sessions', 'cpu', 'mem_mb', 'disk_mb'] as const) {
    const limit = quotas[name]
    if (limit === undefined || wanted[name] === 0 || usage[name] + wanted[name] <= limit) continue
    throw new SandboxError(
      'quota_exceeded',
      `The project’s quota of ${words[name]} is ${limit}; ${usage[name]} are in use.`,
      {
        details: { quota: name, limit, used: usage[name], wanted: wanted[name] },
        hint: 'Destroy sessions that are not needed, or have the quota raised.',
      },
    )
  }
}

/** For a project that has no quota of its own, and a configuration without one. */
const SNAPSHOTS = 100
const SNAPSHOT_MB = 102_400

/** Snapshots that are being made have no row yet. They count all the same, so that parallel requests do not exceed the quota. */
const beingMade = new Map<string, number>()

/** Runs `make` unless the project has too many snapshots, or too much in them. */
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
      throw tooMany('snapshots', 'snapshots', snapshots, usage.snapshots + pending)
    if (usedMb >= snapshot_mb) throw tooMany('snapshot_mb', 'megabytes of snapshots', snapshot_mb, usedMb)
    return await make()
  } finally {
    const left = (beingMade.get(projectId) ?? 1) - 1
    if (left > 0) beingMade.set(projectId, left)
    else beingMade.delete(projectId)
  }
}

function tooMany(quota: string, what: string, limit: number, used: number): SandboxError {
  return new SandboxError(
    'quota_exceeded',
    `The project’s quota of ${what} is ${limit}; ${used} are in use.`,
    {
      details: { quota, limit, used },
      hint: `Delete snapshots that are not needed, or have quotas.${quota} raised.`,
    },
  )
}

const words = {
  sessions: 'sessions',
  cpu: 'processors',
  mem_mb: 'megabytes of memory',
  disk_mb: 'megabytes of disk',
}
