/** Many concurrent creates: the time until the last is ready, and the number of failures. */
import { timed } from '../../measure.ts'
import type { Sandbox } from '../subjects/ours.ts'
import type { Bench, Stage } from './stage.ts'

const COUNT = 100
const name = `engine.burst${COUNT}`

export const burst: Stage = {
  title: `${COUNT} created concurrently`,
  ids: [`${name}.wall`, `${name}.command`, `${name}.destroy`, `${name}.failures`],
  async run({ ours, quick, report }: Bench) {
    if (!ours) return
    const walls: number[] = []
    const commands: number[] = []
    const destroys: number[] = []
    const failures: number[] = []
    const reasons = new Set<string>()
    for (let round = 0; round < (quick ? 1 : 5); round += 1) {
      let failed = 0
      const atOnce = async (work: (index: number) => Promise<unknown>) => {
        const settled = await Promise.allSettled(Array.from({ length: COUNT }, (_, index) => work(index)))
        for (const result of settled) {
          if (result.status === 'fulfilled') continue
          failed += 1
          reasons.add(String(result.reason))
        }
      }
      const sandboxes: Sandbox[] = []
      walls.push(await timed(() => atOnce(async () => sandboxes.push(await ours.create()))))
      // A sandbox that does not respond was not created.
      commands.push(
        await timed(() => atOnce(async (index) => sandboxes[index] && ours.command(sandboxes[index]))),
      )
      const remains = sandboxes.map((sandbox) => ours.remainsOf(sandbox))
      destroys.push(await timed(() => atOnce(async (index) => sandboxes[index]?.destroy())))
      await atOnce(async (index) => remains[index]?.assertNone())
      failures.push(failed)
    }
    report.add(`${name}.wall`, walls)
    report.add(`${name}.command`, commands)
    report.add(`${name}.destroy`, destroys)
    const worst = Math.max(...failures)
    report.add(`${name}.failures`, { p50: worst, p95: worst, count: failures.length }, 'failures')
    if (worst > 0) report.fail(name, [...reasons].slice(0, 3).join('; '))
  },
}
