/** A session, from its request to the response of its first command: created on demand, and taken from the pool. */
import type { Session } from '@sandkasten/sdk/client'
import { sampleOf, takeTurns } from '../measure.ts'
import { coldMs, POOL } from './server.ts'
import type { Bench, Stage } from './stage.ts'

/**
 * Before each cold create its subject runs commands in another sandbox for this long. So both are measured warm, and
 * with the next sandbox prepared. Without a pause, the result would depend on the speed of the previous destroy.
 */
const WORK_MS = 30

const OVER = 'daemon.cold.over-engine'

export const lifecycle: Stage = {
  title: 'Create to first command done, over HTTP; destroy',
  ids: ['engine.cold', 'daemon.cold', OVER, 'daemon.pooled', 'daemon.destroy'],
  async run(bench) {
    if (['engine.cold', 'daemon.cold', OVER, 'daemon.destroy'].some(bench.wants)) await cold(bench)
    if (bench.wants('daemon.pooled')) await pooled(bench)
  },
}

async function cold({ server, ours, quick, report }: Bench): Promise<void> {
  const destroys: number[] = []
  const session = await server.create()
  const sandbox = await ours?.create()
  const turns = [
    {
      id: 'daemon.cold',
      samples: 3,
      async measure() {
        await atWork(() => server.run(session))
        const { ms, session: made } = await coldMs(server, server.create)
        const startedAt = performance.now()
        await made.destroy()
        destroys.push(performance.now() - startedAt)
        return ms
      },
    },
  ]
  if (ours && sandbox)
    turns.push({
      id: 'engine.cold',
      samples: 3,
      async measure() {
        await atWork(() => ours.command(sandbox))
        const { ms, box } = await ours.cold()
        await box.destroy()
        return ms
      },
    })
  const values = await takeTurns(turns, quick ? 5 : 25, (id, error) => report.fail(id, error), 50)
  await session.destroy()
  await sandbox?.destroy()
  for (const [id, found] of values) report.add(id, found)
  report.add('daemon.destroy', destroys)
  const [over, under] = [values.get('daemon.cold'), values.get('engine.cold')]
  if (!over || !under) return
  const difference = sampleOf(over).p50 - sampleOf(under).p50
  report.add(OVER, { p50: difference, p95: difference, count: over.length })
}

async function atWork(work: () => Promise<unknown>): Promise<void> {
  for (const end = performance.now() + WORK_MS; performance.now() < end; ) await work()
}

/**
 * Takes as many as the pool holds, one after another, then waits until it is full: the measurement never waits for
 * refilling.
 */
async function pooled({ server, quick, report }: Bench): Promise<void> {
  const values: number[] = []
  for (let round = 0; round < (quick ? 2 : 8); round += 1) {
    await server.poolFilled()
    const sessions: Session[] = []
    for (let count = 0; count < POOL / 2; count += 1) {
      const { ms, session } = await coldMs(server, server.createPooled)
      sessions.push(session)
      if (count > 0) values.push(ms)
    }
    await server.destroyAll(sessions)
  }
  report.add('daemon.pooled', values)
}
