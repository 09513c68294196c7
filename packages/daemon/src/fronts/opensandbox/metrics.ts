import type { ServerEvent } from '../../http/event-streams.ts'
import type { Session } from '../../sessions/index.ts'
import { notSupported } from '../shared/request.ts'
import { usageOf, windowMs } from '../shared/usage.ts'
import type { Call, Entry } from './entry.ts'

/** The interval between two messages to a watcher. */
const everyMs = 1000

/** The health and resource usage of the sandbox. Reading them is not activity. */
export function metricRoutes(entry: Entry): void {
  const { sessions, streams } = entry.services

  const running = async ({ caller, id }: Call): Promise<Session> => {
    const session = await entry.find(caller, id)
    if (session.status === 'running')
      return session
      // Throws our own error with the reason.
    ;(await sessions.use.take(caller, id, { wake: false })).release()
    return session
  }

  entry.execd('GET', '/ping', 'read', async (call) => {
    await running(call)
  })

  entry.execd('GET', '/metrics', 'read', async (call) => measure(entry, await running(call)))

  entry.execd('GET', '/metrics/watch', 'read', async (call) => {
    const source = async function* (ending: AbortSignal): AsyncGenerator<ServerEvent> {
      while (!ending.aborted) {
        yield { event: 'metrics', data: await measure(entry, await running(call)) }
        await rest(everyMs - windowMs, ending)
      }
    }
    return streams.send(call.reply, source, call.signal)
  })
}

/** Relative to the sandbox's limits, not to the machine. */
async function measure({ services }: Entry, session: Session): Promise<object> {
  const usage = await usageOf(services, session)
  if (!usage) throw notSupported('Measuring a sandbox')
  return {
    cpu_count: session.cpu,
    cpu_used_pct: usage.cpuPercent,
    mem_total_mib: session.mem_mb,
    mem_used_mib: Math.round((usage.memoryBytes / 1_048_576) * 100) / 100,
    timestamp: Date.now(),
  }
}

function rest(ms: number, ending: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    ending.addEventListener(
      'abort',
      () => {
        clearTimeout(timer)
        resolve()
      },
      { once: true },
    )
  })
}
