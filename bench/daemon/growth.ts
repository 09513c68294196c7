/**
 * Whether requests get slower with the number of sessions. A bare spawn beside it shows changes of the machine
 * itself.
 */
import type { Session } from '@sandkasten/sdk/client'
import { spawnTurns } from '../engine/subjects/spawn.ts'
import { inParallel, timed } from '../measure.ts'
import { reportTurns } from '../report.ts'
import type { Stage } from './stage.ts'

const AMONG = 10

/** Flat: with the most sessions a request takes at most this multiple of its time with one. */
export const FLAT = 1.5

export function growth(quick: boolean): Stage {
  const levels = levelsOf(quick)
  return {
    title: 'With this many live sessions (@)',
    ids: levels.flatMap((level) => [`daemon.run@${level}`, `daemon.exec@${level}`, `spawn.command@${level}`]),
    async run(bench) {
      const { server, bare } = bench
      const sessions: Session[] = []
      try {
        for (const level of levels) {
          await inParallel(level - sessions.length, 4, async () => sessions.push(await server.create()))
          const count = Math.min(level, AMONG)
          const among = Array.from(
            { length: count },
            (_, index) => sessions[Math.floor((index * level) / count)]!,
          )
          let next = 0
          const one = () => {
            next += 1
            return among[next % among.length]!
          }
          const spawned = spawnTurns(bare, AMONG * 2).filter(({ id }) => id === 'spawn.command')
          await reportTurns(
            bench,
            [
              {
                id: `daemon.run@${level}`,
                samples: AMONG * 2,
                measure: () => timed(() => server.run(one())),
              },
              {
                id: `daemon.exec@${level}`,
                samples: AMONG * 2,
                measure: () => timed(() => one().exec('true')),
              },
              ...spawned.map((turn) => ({ ...turn, id: `${turn.id}@${level}` })),
            ],
            quick ? 3 : 6,
          )
        }
      } finally {
        await inParallel(sessions.length, 4, (index) => sessions[index]!.destroy())
      }
    },
  }
}

export function levelsOf(quick: boolean): number[] {
  return quick ? [1, 20] : [1, 100, 500]
}
