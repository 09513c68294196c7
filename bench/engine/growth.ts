/**
 * Does it get slower the more there are? One more command, one more box and its end, while so many others live and idle. A bare spawn takes
 * turns with them: if that gets slower as well, it is the machine.
 *
 * Commands go to boxes spread over all of them, not to the one whose pages happen to be warm.
 */
import { inParallel, sampleOf, takeTurns } from '../measure.ts'
import type { Bench, Stage } from './stage.ts'
import type { Box, Subject } from './subject.ts'

/** Docker takes a third of a second for each: at 500 the run would wait for it and for nothing else. */
const FULL = { engine: [1, 10, 100, 500], crun: [1, 10, 100], docker: [1, 10, 50] }
const QUICK = { engine: [1, 20], crun: [], docker: [] }
const AMONG = 10

/** Flat: with the most boxes one more command takes at most this much of what it takes with one. */
export const FLAT = 1.5

export function growth(quick: boolean): Stage {
  const levels: Record<string, number[]> = quick ? QUICK : FULL
  const ids = Object.entries(levels).flatMap(([name, counts]) =>
    counts.flatMap((count) => ['command', 'cold', 'destroy'].map((what) => `${name}.${what}@${count}`)),
  )
  return {
    title: 'While so many live (@)',
    ids: [...ids, ...levels.engine!.map((count) => `spawn.command@${count}`)],
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
      boxes.push(...(await inParallel(level - boxes.length, 4, async () => (await subject.cold()).box)))
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
          ? [{ id: `spawn.command@${level}`, samples: AMONG * 2, measure: () => bare('command') }]
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
