import type { Services } from '../../http/services.ts'
import type { Session } from '../../sessions/index.ts'

interface Stats {
  memoryBytes?: number
  cpuUsec?: number
}

/** The interval over which processor usage is measured. */
export const windowMs = 200

/** The current usage of a running sandbox and its limits. Undefined when the provider does not measure it. */
export async function usageOf(
  { sessions }: Services,
  session: Session,
): Promise<{ cpuPercent: number; memoryBytes: number } | undefined> {
  const before: Stats | undefined = await sessions.stats(session)
  if (!before) return undefined
  const startedAt = performance.now()
  await new Promise((resolve) => setTimeout(resolve, windowMs))
  const now: Stats = (await sessions.stats(session)) ?? {}
  const passedUsec = (performance.now() - startedAt) * 1000
  const usedUsec = (now.cpuUsec ?? 0) - (before.cpuUsec ?? 0)
  return {
    cpuPercent: Math.round((usedUsec / passedUsec / Math.max(session.cpu, 0.01)) * 10_000) / 100,
    memoryBytes: now.memoryBytes ?? 0,
  }
}
