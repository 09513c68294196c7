/** Measuring: take turns, sort, take the middle. */
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { assertGoingOn } from './stop.ts'

export interface Sample {
  readonly p50: number
  readonly p95: number
  readonly count: number
}

export function sampleOf(values: readonly number[]): Sample {
  const sorted = [...values].sort((a, b) => a - b)
  // Nearest rank: with few values p95 is simply the worst.
  const at = (share: number) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN
  return { p50: at(0.5), p95: at(0.95), count: sorted.length }
}

/** Milliseconds that one call takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

/** One who takes turns. `measure` gives the milliseconds of one sample, so that preparing and checking stay outside. */
export interface Turn {
  readonly id: string
  /** Samples in a row each time it is its turn. */
  readonly samples: number
  measure(): Promise<number>
}

/**
 * Whatever else the machine does hits everyone alike when all take turns. A turn is several samples in a row after one that does not
 * count: the first pays for the caches that the one before has filled, which is nobody's own time. A short rest before it lets that one's
 * daemons finish. Who follows whom changes every round.
 *
 * One who fails is out; the others go on.
 */
export async function takeTurns(
  turns: readonly Turn[],
  rounds: number,
  onFailure: (id: string, error: unknown) => void,
  restMs = 20,
): Promise<Map<string, number[]>> {
  const values = new Map<string, number[]>()
  let left = [...turns]
  for (let round = 0; round < rounds; round += 1) {
    const order = shuffled(left)
    for (const turn of order) {
      try {
        assertGoingOn()
        await sleep(restMs)
        await turn.measure()
        for (let sample = 0; sample < turn.samples; sample += 1) {
          assertGoingOn()
          push(values, turn.id, await turn.measure())
        }
      } catch (error) {
        assertGoingOn()
        left = left.filter((other) => other !== turn)
        values.delete(turn.id)
        onFailure(turn.id, error)
      }
    }
  }
  return values
}

/** Runs `work` for each of `count`, at most `atOnce` at a time: for all of them, whoever fails. Then the first failure is thrown. */
export async function inParallel<T>(
  count: number,
  atOnce: number,
  work: (index: number) => Promise<T>,
): Promise<T[]> {
  const results: T[] = []
  const errors: unknown[] = []
  let next = 0
  const worker = async () => {
    while (next < count) {
      const index = next
      next += 1
      try {
        results[index] = await work(index)
      } catch (error) {
        errors.push(error)
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, worker))
  if (errors.length > 0) throw errors[0]
  return results
}

/** Gives back what earlier measurements have left in memory: what this process starts would be slower for it. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
}

function push(values: Map<string, number[]>, id: string, value: number): void {
  const known = values.get(id)
  if (known) known.push(value)
  else values.set(id, [value])
}

function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, key: Math.random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ item }) => item)
}
