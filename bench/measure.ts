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
  // Nearest rank: with few values p95 is the maximum.
  const at = (share: number) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN
  return { p50: at(0.5), p95: at(0.95), count: sorted.length }
}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

/** A participant. `measure` returns the milliseconds of one sample, so that preparation and checks are not timed. */
export interface Turn {
  readonly id: string
  readonly samples: number
  measure(): Promise<number>
}

/**
 * Subjects take turns, so that other load on the machine affects all alike. A turn is several consecutive samples
 * after one that does not count, because the first pays for cold caches. A short pause lets daemons of the previous
 * subject finish. The order changes every round.
 *
 * A subject that fails is removed; the others continue.
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

/** Runs `work` `count` times with limited concurrency. Runs all, even if some fail, then throws the first failure. */
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

/** Frees memory of earlier measurements, which would slow down starting processes. */
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
