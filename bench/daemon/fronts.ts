/**
 * The cost of another vendor's protocol: E2B's SDK against our front, beside our client. Both create, run one command
 * and kill, from the same pool. E2B's SDK runs commands in a login shell, so our client runs the same command line.
 */
import { Sandbox } from 'e2b'
import { sampleOf, takeTurns, timed } from '../measure.ts'
import type { Stage } from './stage.ts'

const OVER = 'e2b.cycle.over-daemon'

export const fronts: Stage = {
  title: 'Create, one command, kill: E2B’s SDK on our front beside our client',
  ids: ['daemon.cycle', 'e2b.cycle', OVER],
  async run({ server, quick, report }) {
    const e2b = { apiKey: server.key, apiUrl: server.fronts.e2b!, sandboxUrl: server.fronts.e2b! }
    const fromPool = async (work: () => Promise<void>) => {
      await server.poolFilled()
      return timed(work)
    }
    const turns = [
      {
        id: 'daemon.cycle',
        samples: 3,
        measure: () =>
          fromPool(async () => {
            const session = await server.createPooled()
            const { exitCode } = await session.run('/bin/bash', { args: ['-l', '-c', 'true'] })
            if (exitCode !== 0) throw new Error(`exit code ${exitCode}`)
            await session.destroy()
          }),
      },
      {
        id: 'e2b.cycle',
        samples: 3,
        measure: () =>
          fromPool(async () => {
            const sandbox = await Sandbox.create({ ...e2b, timeoutMs: 60_000 })
            await sandbox.commands.run('true')
            await sandbox.kill()
          }),
      },
    ]
    const values = await takeTurns(turns, quick ? 3 : 15, (id, error) => report.fail(id, error), 50)
    for (const [id, found] of values) report.add(id, found)
    const [over, under] = [values.get('e2b.cycle'), values.get('daemon.cycle')]
    if (!over || !under) return
    const difference = sampleOf(over).p50 - sampleOf(under).p50
    report.add(OVER, { p50: difference, p95: difference, count: over.length })
  },
}
