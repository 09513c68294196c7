import { choose } from './run.ts'
import { Session } from './session.ts'
import type { Behaviour, ConformanceOptions } from './types.ts'

/** The functions that every JavaScript test runner has. `afterAll` (or `after`) is used if given. */
export interface TestRunner {
  describe(name: string, body: () => void): unknown
  it(name: string, body: (context?: unknown) => Promise<void>): unknown
  afterAll?(body: () => Promise<void>): unknown
}

/**
 * Registers every behaviour of the contract as a test:
 *
 *     import { describe, it } from 'vitest' // or 'node:test'
 *     conformance({
 *       provider: () => new MyProvider(),
 *       runner: { describe, it },
 *       without: { reopen: 'one process only', … },
 *     })
 *
 * If the provider does not declare an ability, the test asserts that its calls throw `unsupported`; no behaviour is
 * skipped silently. Set the runner's time limit above `limits.behaviourMs`.
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
    runner.it('The kit leaves nothing behind', async () => (await open()).close())
    runner.afterAll?.(async () => (await session)?.close())
  })
}

/** Skips with the reason through the runner's context (vitest, node:test), or on the console. */
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
  if (describe && it) return { describe, it, afterAll }
  throw new Error('No global describe and it found: pass { runner: { describe, it } } of your test runner.')
}
