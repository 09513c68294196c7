/**
 * Whether commands, creates and destroys get slower with the number of idle sandboxes. Bare spawns take turns with
 * them. If `spawn.command` gets slower too, the machine is the cause. If `spawn.here` does, the cause is the size of
 * this process, which starts a shim for every sandbox (see `worker.ts`).
 *
 * Commands go to sandboxes spread over all of them, not to one with warm pages.
 */
import { collectGarbage, inParallel, sampleOf, takeTurns } from '../../measure.ts'
import { spawnTurns } from '../subjects/spawn.ts'
import type { Box, Subject } from '../subjects/subject.ts'
import type { Bench, Stage } from './stage.ts'

/** Docker takes a third of a second for each, so 500 would take too long. */
const FULL = { engine: [1, 10, 100, 500], crun: [1, 10, 100], docker: [1, 10, 50] }
const QUICK = { engine: [1, 20], crun: [], docker: [] }
const AMONG = 10
const CONTROLS = ['spawn.command', 'spawn.here']

/** Flat: with the most boxes one more command takes at most this multiple of its time with one. */
export const FLAT = 1.5

export function growth(quick: boolean): Stage {
  const levels: Record<string, number[]> = quick ? QUICK : FULL
  const ids = Object.entries(levels).flatMap(([name, counts]) =>
    counts.flatMap((count) => ['command', 'cold', 'destroy'].map((what) => `${name}.${what}@${count}`)),
  )
  return {
    title: 'With this many live (@)',
    ids: [...ids, ...levels.engine!.flatMap((count) => CONTROLS.map((id) => `${id}@${count}`))],
    async run(bench: Bench) {
      for (const subject of [bench.crun, bench.docker, bench.ours])
        if (subject && ids.some((id) => id.startsWith(`${subject.name}.`) && bench.wants(id)))
          await grow(bench, subject, levels[subject.name]!)
    },
  }
}

export function mostBoxes(quick: boolean): number {
  return (quick ? QUICK : FULL).engine.at(-1)!
}

async function grow(
  { report, quick, wants, bare }: Bench,
  subject: Subject,
  levels: readonly number[],
): Promise<void> {
  const boxes: Box[] = []
  const failed = (id: string, error: unknown) => report.fail(id, error)
  try {
    for (const level of levels) {
      await inParallel(level - boxes.length, 4, async () => boxes.push((await subject.cold()).box))
      collectGarbage()
      const among = Array.from(
        { length: Math.min(level, AMONG) },
        (_, index) => boxes[Math.floor((index * level) / Math.min(level, AMONG))]!,
      )
      let next = 0
      const destroys: number[] = []
      const docker = subject.name === 'docker'
      const turns = [
        {
          id: `${subject.name}.command@${level}`,
          samples: docker ? 3 : AMONG * 2,
          measure() {
            next += 1
            return among[next % among.length]!.command()
          },
        },
        {
          id: `${subject.name}.cold@${level}`,
          samples: docker ? 1 : 3,
          async measure() {
            const { ms, box } = await subject.cold()
            destroys.push(await box.destroy())
            return ms
          },
        },
        ...(subject.name === 'engine'
          ? spawnTurns(bare, AMONG * 2)
              .filter(({ id }) => CONTROLS.includes(id))
              .map((turn) => ({ ...turn, id: `${turn.id}@${level}` }))
          : []),
      ]
      const values = await takeTurns(turns, quick || docker ? 3 : 6, failed)
      for (const { id } of turns) if (values.has(id) && wants(id)) report.add(id, values.get(id)!)
      const id = `${subject.name}.destroy@${level}`
      if (destroys.length > 0 && wants(id)) report.add(id, sampleOf(destroys))
    }
  } finally {
    await inParallel(boxes.length, 4, (index) => boxes[index]!.destroy())
  }
}
