/**
 * A hundred concurrent sessions, each with its first command, as in the public leaderboards (see bench/README.md).
 * The pool is smaller, so most sessions are created on demand.
 */
import { timed } from '../measure.ts'
import { coldMs } from './server.ts'
import type { Stage } from './stage.ts'

const COUNT = 100
const name = `daemon.burst${COUNT}`
const ids = ['median', 'p95', 'p99', 'wall', 'failures'].map((what) => `${name}.${what}`)

export const burst: Stage = {
  title: `${COUNT} sessions at once, each to its first command done`,
  ids,
  async run({ server, quick, report }) {
    const rows: Record<string, number[]> = Object.fromEntries(ids.map((id) => [id, []]))
    const reasons = new Set<string>()
    for (let round = 0; round < (quick ? 1 : 5); round += 1) {
      await server.poolFilled()
      let settled: PromiseSettledResult<Awaited<ReturnType<typeof coldMs>>>[] = []
      const wall = await timed(async () => {
        settled = await Promise.allSettled(
          Array.from({ length: COUNT }, () => coldMs(server, server.createPooled)),
        )
      })
      const made = settled.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
      for (const result of settled) if (result.status === 'rejected') reasons.add(String(result.reason))
      const sorted = made.map(({ ms }) => ms).sort((a, b) => a - b)
      const at = (share: number) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN
      const found = [at(0.5), at(0.95), at(0.99), wall, COUNT - made.length]
      for (const [index, id] of ids.entries()) rows[id]!.push(found[index]!)
      await server.destroyAll(made.map(({ session }) => session))
    }
    for (const id of ids.slice(0, -1)) report.add(id, rows[id]!)
    const worst = Math.max(...rows[ids.at(-1)!]!)
    report.add(ids.at(-1)!, { p50: worst, p95: worst, count: rows[ids.at(-1)!]!.length }, 'failures')
    if (worst > 0) report.fail(name, [...reasons].slice(0, 3).join('; '))
  },
}
