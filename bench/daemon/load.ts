/**
 * A fixed rate of requests for a minute over 50 sessions, at fixed times, whether or not earlier ones were answered.
 * A daemon that falls behind shows in the time until the last response. The client shares the two cores.
 */
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { inParallel, sampleOf } from '../measure.ts'
import { assertGoingOn } from '../stop.ts'
import type { Server } from './server.ts'
import type { Stage } from './stage.ts'

const SESSIONS = 50
const RATE = 1000
const TICK_MS = 5

export const load: Stage = {
  title: `${RATE} × run true a second over ${SESSIONS} sessions`,
  ids: ['latency', 'late', 'errors', 'memory'].map((what) => `daemon.load.${what}`),
  async run({ server, quick, report }) {
    const seconds = quick ? 5 : 60
    const sessions = await inParallel(SESSIONS, 4, () => server.create())
    const agent = new Agent({ keepAlive: true, maxSockets: 64 })
    try {
      const [{ latencies, errors, lateMs }, bytes] = await Promise.all([
        send(server, agent, sessions, { rate: RATE, seconds }),
        growth(server, seconds),
      ])
      const grown = bytes / 1024 ** 2
      report.add('daemon.load.latency', sampleOf(latencies))
      report.add('daemon.load.late', { p50: lateMs, p95: lateMs, count: 1 })
      report.add('daemon.load.errors', { p50: errors.length, p95: errors.length, count: 1 }, 'errors')
      report.add('daemon.load.memory', { p50: grown, p95: grown, count: 1 }, 'MiB more')
      if (errors.length > 0) report.fail('daemon.load', [...new Set(errors)].slice(0, 3).join('; '))
    } finally {
      agent.destroy()
      await server.destroyAll(sessions)
    }
  },
}

async function send(
  server: Server,
  agent: Agent,
  sessions: readonly { id: string }[],
  { rate, seconds }: { rate: number; seconds: number },
): Promise<{ latencies: number[]; errors: string[]; lateMs: number }> {
  const latencies: number[] = []
  const errors: string[] = []
  const pending = new Set<Promise<void>>()
  const startedAt = performance.now()
  for (let sent = 0; sent < rate * seconds; ) {
    assertGoingOn()
    const due = Math.min(rate * seconds, Math.floor(((performance.now() - startedAt) / 1000) * rate))
    for (; sent < due; sent += 1) {
      // Measured from its scheduled time: waiting for a free connection counts.
      const dueAt = startedAt + (sent / rate) * 1000
      const one = runTrue(server, agent, sessions[sent % sessions.length]!.id).then(
        () => void latencies.push(performance.now() - dueAt),
        (error: unknown) => void errors.push(String(error)),
      )
      pending.add(one)
      void one.then(() => pending.delete(one))
    }
    await sleep(TICK_MS)
  }
  await Promise.all(pending)
  return { latencies, errors, lateMs: performance.now() - startedAt - seconds * 1000 }
}

/** Uses Node's plain client, which takes little CPU from the daemon. */
function runTrue({ url, key }: Server, agent: Agent, id: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const body = '{"cmd":"true"}'
    const asked = request(
      `${url}/v1/sessions/${id}/run`,
      {
        method: 'POST',
        agent,
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          'content-length': body.length,
        },
      },
      (answer) => {
        let text = ''
        answer.setEncoding('utf8')
        answer.on('data', (chunk: string) => {
          text += chunk
        })
        answer.on('end', () => {
          if (answer.statusCode === 200 && text.includes('"exit_code":0')) resolve()
          else reject(new Error(`${answer.statusCode} ${text}`))
        })
        answer.on('error', reject)
      },
    )
    asked.on('error', reject)
    asked.end(body)
  })
}

/** The growth of the daemon's live memory from the middle to the end of the minute, both under the same load. */
async function growth(server: Server, seconds: number): Promise<number> {
  await sleep(seconds * 400)
  const before = await server.memoryHeld()
  await sleep(seconds * 500)
  return (await server.memoryHeld()) - before
}
