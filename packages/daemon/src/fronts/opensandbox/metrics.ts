import type { ServerEvent } from '../../api/streams.ts'
import type { Session } from '../../sessions/index.ts'
import { type Call, type Desk, notSupported } from './desk.ts'

interface Stats {
  memoryBytes?: number
  cpuUsec?: number
}

/** How long processor time is watched for one figure, and how often a watcher is told. */
const windowMs = 200
const everyMs = 1000

/** Whether the sandbox answers, and what it uses. Looking is not activity. */
export function metricRoutes(desk: Desk): void {
  const { sessions, streams } = desk.services

  const running = async ({ caller, id }: Call): Promise<Session> => {
    const session = await desk.find(caller, id)
    if (session.status === 'running')
      return session
      // Says why it is not, in our own words.
    ;(await sessions.use.take(caller, id, { wake: false })).release()
    return session
  }

  desk.execd('GET', '/ping', 'read', async (call) => {
    await running(call)
  })

  desk.execd('GET', '/metrics', 'read', async (call) => measure(desk, await running(call)))

  desk.execd('GET', '/metrics/watch', 'read', async (call) => {
    const source = async function* (ending: AbortSignal): AsyncGenerator<ServerEvent> {
      while (!ending.aborted) {
        yield { event: 'metrics', data: await measure(desk, await running(call)) }
        await rest(everyMs - windowMs, ending)
      }
    }
    return streams.send(call.reply, source, call.signal)
  })
}

/** Of its own limits, not of the machine. */
async function measure({ services }: Desk, session: Session): Promise<object> {
  const { provider } = services.sessions.context
  if (!provider.stats || session.sandbox_id === null) throw notSupported('Measuring a sandbox')
  const before: Stats = await provider.stats(session.sandbox_id)
  const startedAt = performance.now()
  await rest(windowMs)
  const now: Stats = await provider.stats(session.sandbox_id)
  const passedUsec = (performance.now() - startedAt) * 1000
  const usedUsec = (now.cpuUsec ?? 0) - (before.cpuUsec ?? 0)
  return {
    cpu_count: session.cpu,
    cpu_used_pct: rounded((usedUsec / passedUsec / session.cpu) * 100),
    mem_total_mib: session.mem_mb,
    mem_used_mib: rounded((now.memoryBytes ?? 0) / 1_048_576),
    timestamp: Date.now(),
  }
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}

function rest(ms: number, ending?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    ending?.addEventListener(
      'abort',
      () => {
        clearTimeout(timer)
        resolve()
      },
      { once: true },
    )
  })
}
