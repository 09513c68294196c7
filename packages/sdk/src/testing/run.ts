import { behaviours } from './behaviours/index.ts'
import { Session } from './session.ts'
import type { Behaviour, ConformanceOptions } from './types.ts'

export interface BehaviourResult {
  readonly id: string
  readonly group: string
  readonly name: string
  /** `excused`: not run, for the reason that the caller stated. */
  readonly status: 'passed' | 'failed' | 'excused'
  /** What was run instead, or why nothing was. */
  readonly note?: string
  readonly error?: Error
  readonly durationMs: number
}

export interface ConformanceReport {
  readonly provider: string
  readonly results: readonly BehaviourResult[]
  readonly passed: number
  readonly failed: readonly BehaviourResult[]
  readonly excused: readonly BehaviourResult[]
  /** What the cleanup could not remove. */
  readonly leftovers?: Error
}

/** Runs the kit without a test runner. A failed behaviour does not throw; the report contains it. */
export async function runConformance(options: ConformanceOptions): Promise<ConformanceReport> {
  const session = await Session.open(options)
  const results: BehaviourResult[] = []
  for (const behaviour of choose(options.only)) results.push(await runOne(session, behaviour))
  const leftovers = await session.close().then(
    () => undefined,
    (error: Error) => error,
  )
  return {
    provider: session.provider.name,
    results,
    passed: results.filter(({ status }) => status === 'passed').length,
    failed: results.filter(({ status }) => status === 'failed'),
    excused: results.filter(({ status }) => status === 'excused'),
    leftovers,
  }
}

/** The behaviours selected by `only`. Throws for an unknown name. */
export function choose(only: ConformanceOptions['only']): Behaviour[] {
  if (only === undefined) return [...behaviours]
  if (typeof only === 'function') return behaviours.filter(only)
  for (const word of only) {
    if (!behaviours.some(({ id, group }) => word === id || word === group))
      throw new Error(`There is no behaviour and no group “${word}”.`)
  }
  return behaviours.filter(({ id, group }) => only.includes(id) || only.includes(group))
}

async function runOne(session: Session, behaviour: Behaviour): Promise<BehaviourResult> {
  const { id, group, name } = behaviour
  const excuse = session.excuse(behaviour)
  if (excuse !== undefined) return { id, group, name, status: 'excused', note: excuse, durationMs: 0 }
  const note = session.note(behaviour)
  const start = performance.now()
  const facts = () => ({
    id,
    group,
    name,
    note,
    durationMs: performance.now() - start,
  })
  try {
    await session.run(behaviour)
    return { ...facts(), status: 'passed' }
  } catch (error) {
    return { ...facts(), status: 'failed', error: error instanceof Error ? error : new Error(String(error)) }
  }
}
