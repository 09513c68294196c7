import { askedMs, isAboutProvider } from './backoff.ts'

/** What happened to one row. */
export type Visit =
  | { readonly sandbox: string; readonly action: string }
  | { readonly sandbox: string; readonly error: unknown }
  /** Nothing was due any more, or another process works on it. */
  | undefined

export interface LaneOptions<T> {
  /** The next rows; those that were visited already may be among them. */
  readonly rows: () => Promise<T[]>
  /** Never rejects. */
  readonly visit: (row: T) => Promise<Visit>
  readonly signal: AbortSignal | undefined
}

export interface LaneResult {
  readonly visits: Array<NonNullable<Visit>>
  /** The provider is not to be asked again for so long. */
  readonly pauseMs: number | undefined
}

/** At most this many requests to one provider at a time. */
const concurrency = 4
/** After so many failures in a row that are about the provider, the rest waits: each would take a time limit. */
const mostFailures = 3
const defaultPauseMs = 30_000

/** Visits each row of one provider once, a few at a time. */
export async function runLane<T extends { id: string }>({
  rows,
  visit,
  signal,
}: LaneOptions<T>): Promise<LaneResult> {
  const visited = new Set<string>()
  const visits: Array<NonNullable<Visit>> = []
  let failures = 0
  let pauseMs: number | undefined
  const isOver = () => pauseMs !== undefined || signal?.aborted === true

  const work = async (queue: T[]) => {
    for (let row = queue.shift(); row && !isOver(); row = queue.shift()) {
      const seen = await visit(row)
      if (!seen) continue
      visits.push(seen)
      if (!('error' in seen) || !isAboutProvider(seen.error)) {
        failures = 0
        continue
      }
      failures += 1
      const asked = askedMs(seen.error)
      if (asked !== undefined || failures >= mostFailures)
        pauseMs = Math.max(pauseMs ?? 0, asked ?? defaultPauseMs)
    }
  }
  while (!isOver()) {
    const queue = (await rows()).filter(({ id }) => !visited.has(id))
    if (queue.length === 0) break
    for (const { id } of queue) visited.add(id)
    await Promise.all(Array.from({ length: concurrency }, () => work(queue)))
  }
  return { visits, pauseMs }
}
