import { choose } from './run.ts'
import { Session } from './session.ts'
import type { Behaviour, ConformanceOptions } from './types.ts'

/** The two words that every JavaScript test runner has. `afterAll` (or `after`) is used where it is given. */
export interface TestRunner {
  describe(name: string, body: () => void): unknown
  it(name: string, body: (context?: unknown) => Promise<void>): unknown
  afterAll?(body: () => Promise<void>): unknown
}

/**
 * Every behaviour of the contract as a test of your runner:
 *
 *     import { describe, it } from 'vitest' // or 'node:test'
 *     conformance({ provider: () => new MyProvider(), runner: { describe, it }, without: { reopen: 'one process only', … } })
 *
 * A behaviour whose ability the provider does not declare becomes a test that its calls throw `unsupported`; none
 * is skipped without a word. Give the runner's own time limit more room than `limits.behaviourMs`.
 */
export function conformance(options: ConformanceOptions & { runner?: TestRunner; title?: string }): void {
  const runner = options.runner ?? globalRunner()
  let session: Promise<Session> | undefined
  const open = () => {
    session ??= Session.open(options)
    return session
  }
  runner.describe(options.title ?? 'the contract', () => {
    for (const [group, list] of byGroup(choose(options.only))) {
      runner.describe(group, () => {
        for (const behaviour of list) {
          runner.it(behaviour.name, async (context) => {
            const running = await open()
            const excuse = running.excuse(behaviour)
            if (excuse === undefined) await running.run(behaviour)
            else skip(context, behaviour, excuse)
          })
        }
      })
    }
    runner.it('Nothing that the kit made is left', async () => (await open()).close())
    runner.afterAll?.(async () => (await session)?.close())
  })
}

/** As skipped, with the reason, where the runner's context can say so (vitest, node:test); on the console where not. */
function skip(context: unknown, behaviour: Behaviour, excuse: string): void {
  const own = context as { skip?: (reason: string) => void } | undefined
  if (typeof own?.skip === 'function') own.skip(excuse)
  else console.info(`not run: ${behaviour.name} (${excuse})`)
}

function byGroup(list: readonly Behaviour[]): Map<string, Behaviour[]> {
  return Map.groupBy(list, ({ group }) => group)
}

function globalRunner(): TestRunner {
  const { describe, it, afterAll } = globalThis as Partial<TestRunner>
  if (describe && it) return { describe, it, ...(afterAll ? { afterAll } : {}) }
  throw new Error(
    'There is no global describe and it: pass { runner: { describe, it } } of your test runner.',
  )
}
