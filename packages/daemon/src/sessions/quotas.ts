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

const words = {
  sessions: 'sessions',
  cpu: 'processors',
  mem_mb: 'megabytes of memory',
  disk_mb: 'megabytes of disk',
}
