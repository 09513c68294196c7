import type { Session } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'

interface Stats {
  memoryBytes?: number
  cpuUsec?: number
}

/** How long processor time is watched for one figure. */
const windowMs = 200

/** What the sandbox uses now: one point in time, because none is kept. Nothing while it does not run. */
export async function metricsOf({ services }: FrontPlace, session: Session): Promise<object[]> {
  const { provider } = services.sessions.context
  if (session.status !== 'running' || !provider.stats || session.sandbox_id === null) return []
  const before: Stats = await provider.stats(session.sandbox_id)
  const startedAt = performance.now()
  await new Promise((resolve) => setTimeout(resolve, windowMs))
  const now: Stats = await provider.stats(session.sandbox_id)
  const passedUsec = (performance.now() - startedAt) * 1000
  const usedUsec = (now.cpuUsec ?? 0) - (before.cpuUsec ?? 0)
  const timestamp = new Date()
  return [
    {
      timestamp: timestamp.toISOString(),
      timestampUnix: Math.floor(timestamp.getTime() / 1000),
      cpuCount: Math.max(1, Math.round(session.cpu)),
      cpuUsedPct: Math.round((usedUsec / passedUsec / Math.max(session.cpu, 0.01)) * 10_000) / 100,
      memUsed: now.memoryBytes ?? 0,
      memTotal: session.mem_mb * 1_048_576,
      memCache: 0,
      diskUsed: 0,
      diskTotal: session.disk_mb * 1_048_576,
    },
  ]
}

export interface LogEntry {
  readonly timestamp: string
  readonly level: 'info'
  readonly message: string
  readonly fields: Record<string, string>
}

/** What happened to the sandbox, oldest first. What its commands said is not kept here. */
export async function logsOf({ services }: FrontPlace, session: Session): Promise<LogEntry[]> {
  const events = await services.events.list(session.project_id, {
    after: 0,
    limit: 1000,
    sessionId: session.id,
  })
  return events.map(({ type, data, createdAt }) => ({
    timestamp: new Date(createdAt).toISOString(),
    level: 'info',
    message: type,
    fields: Object.fromEntries(Object.entries(data).map(([name, value]) => [name, String(value)])),
  }))
}
