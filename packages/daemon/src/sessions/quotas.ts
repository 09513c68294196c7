import { SandboxError } from '@sandkasten/sdk'
import { type Quotas, quotasSchema } from '../config/index.ts'
import type { Caller } from '../keys/index.ts'
import type { Usage } from '../store/index.ts'
import type { Context } from './context.ts'

/** What a create, a fork or a start adds to what its project uses. */
export interface Wanted {
  readonly sessions: number
  readonly cpu: number
  readonly memoryMb: number
  /** For each of the new sessions; 0: without a limit. */
  readonly diskMb: number
}

type Asking = Pick<Caller, 'projectId' | 'quotas'>

/** The project's own quotas, and where it has none those of the configuration. */
export async function quotasOf({ store, config }: Context, caller: Asking): Promise<Quotas> {
  const written =
    caller.quotas === undefined ? (await store.keys.project(caller.projectId))?.quotas : caller.quotas
  const own = written ? quotasSchema.parse(JSON.parse(written)) : {}
  return { ...config.quotas, ...own }
}

/**
 * What is to be checked in the transaction that writes the change down; undefined when the project has no quotas, so
 * that nothing needs to be counted.
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

/** Throws when that would be too much, and says of what. */
export function checkQuotas(
  quotas: Quotas,
  usage: Usage,
  wanted: Wanted,
  defaultDiskMb: number | undefined,
): void {
  if (quotas.disk_mb !== undefined && wanted.sessions > 0 && wanted.diskMb === 0 && !defaultDiskMb)
    throw new SandboxError('quota_exceeded', 'The project has a quota of disk, and this disk has no limit.', {
      details: { quota: 'disk_mb', limit: quotas.disk_mb },
      hint: 'Ask for limits.disk_mb, or set defaults.disk_limit_mb.',
    })
  // A disk without a limit counts as one of the default size.
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

const words = {
  sessions: 'sessions',
  cpu: 'processors',
  mem_mb: 'megabytes of memory',
  disk_mb: 'megabytes of disk',
}
