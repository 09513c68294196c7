/** A session, from the request for it to the answer of its first command: made when asked for, and taken from the pool. */
import type { Session } from '@sandkasten/sdk/client'
import { sampleOf, takeTurns } from '../measure.ts'
import { coldMs, POOL } from './server.ts'
import type { Bench, Stage } from './stage.ts'

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
  const turns = [
    {
      id: 'daemon.cold',
      samples: 3,
      async measure() {
        const { ms, session } = await coldMs(server, server.create)
        const startedAt = performance.now()
        await session.destroy()
        destroys.push(performance.now() - startedAt)
        return ms
      },
    },
  ]
  if (ours)
    turns.push({
      id: 'engine.cold',
      samples: 3,
      async measure() {
        const { ms, box } = await ours.cold()
        await box.destroy()
        return ms
      },
    })
  const values = await takeTurns(turns, quick ? 5 : 25, (id, error) => report.fail(id, error), 50)
  for (const [id, found] of values) report.add(id, found)
  report.add('daemon.destroy', destroys)
  const [over, under] = [values.get('daemon.cold'), values.get('engine.cold')]
  if (!over || !under) return
  const difference = sampleOf(over).p50 - sampleOf(under).p50
  report.add(OVER, { p50: difference, p95: difference, count: over.length })
}

/** As many as the pool holds, one after another, then it is filled again: what is measured never waits for the filling. */
async function pooled({ server, quick, report }: Bench): Promise<void> {
  const values: number[] = []
  for (let round = 0; round < (quick ? 2 : 8); round += 1) {
    await server.poolFilled()
    const sessions: Session[] = []
    for (let count = 0; count < POOL / 2; count += 1) {
      const { ms, session } = await coldMs(server, server.createPooled)
      sessions.push(session)
      // As everywhere, the first of a turn does not count.
      if (count > 0) values.push(ms)
    }
    await server.destroyAll(sessions)
  }
  report.add('daemon.pooled', values)
}
