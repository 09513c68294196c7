import type { Session } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import { usageOf } from '../shared/usage.ts'

const slackSeconds = 60

/**
 * The current usage of the sandbox, as a single sample, because no history is kept. Empty when the sandbox does not run,
 * and for a time range that does not include now.
 */
export async function metricsOf(
  { services }: FrontPlace,
  session: Session,
  asked: { start?: number; end?: number } = {},
): Promise<object[]> {
  const now = Math.floor(Date.now() / 1000)
  // Clocks differ a little, so accept times close to now.
  if ((asked.start ?? 0) > now + slackSeconds || (asked.end ?? Infinity) < now - slackSeconds) return []
  const usage = session.status === 'running' ? await usageOf(services, session) : undefined
  if (!usage) return []
  const timestamp = new Date()
  return [
    {
      timestamp: timestamp.toISOString(),
      timestampUnix: Math.floor(timestamp.getTime() / 1000),
      cpuCount: Math.max(1, Math.round(session.cpu)),
      cpuUsedPct: usage.cpuPercent,
      memUsed: usage.memoryBytes,
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

interface LogOptions {
  readonly from: number
  readonly limit: number
  readonly backward: boolean
  readonly search?: string
}

/** Events of the sandbox, before or after a time. Output of commands is not included. */
export async function logsOf(
  { services }: FrontPlace,
  session: Session,
  { from, limit, backward, search = '' }: LogOptions,
): Promise<LogEntry[]> {
  const all: Awaited<ReturnType<typeof services.events.list>> = []
  for (let after = 0; ; ) {
    const page = await services.events.list(session.project_id, {
      after,
      limit: 1000,
      sessionId: session.id,
    })
    all.push(...page)
    if (page.length < 1000) break
    after = page.at(-1)!.id
  }
  const wanted = all.filter(
    ({ createdAt, type }) => (backward ? createdAt <= from : createdAt >= from) && type.includes(search),
  )
  const chosen = (backward ? wanted.reverse() : wanted).slice(0, limit)
  return chosen.map(({ type, data, createdAt }) => ({
    timestamp: new Date(createdAt).toISOString(),
    level: 'info',
    message: type,
    fields: Object.fromEntries(Object.entries(data).map(([name, value]) => [name, String(value)])),
  }))
}
