import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeEach, describe, expect, it } from 'vitest'
import { buildRunner } from '../../runner/build-runner.ts'
import { hasProgram } from './programs.ts'
import { reasonToSkip } from './testing/bench.ts'
import { temporaryAccount } from './testing/temporary-account.ts'

/**
 * The engine without root: the conformance kit, the escape corpus and what is particular to an account, each run by an account that has a range of
 * ids and by one that has its own id only. They are made here and removed afterwards.
 */
const checkout = fileURLToPath(new URL('../../../../..', import.meta.url))
const suites = ['isolators/oci/escape', 'isolators/oci/as-account', 'provider/conformance'].map(
  (suite) => `packages/engine/src/${suite}`,
)

const reason =
  (await reasonToSkip()) ??
  (hasProgram('newuidmap') && hasProgram('useradd')
    ? undefined
    : 'needs uidmap and useradd: apt-get install uidmap passwd')

describe('conformance: engine without root (isolator: oci)', () => {
  beforeEach((ctx) => ctx.skip(reason !== undefined, reason))

  it.concurrent.each([
    ['range', true],
    ['own', false],
  ])(
    'the kit, the escape corpus and its own tests, as an account with ids: %s',
    { timeout: 600_000 },
    async (mode, range) => {
      if (reason !== undefined) return
      const runner = process.env.SANDKASTEN_RUNNER ?? (await buildRunner())
      await using account = await temporaryAccount({ checkout, range })
      const result = join(account.home, 'result.json')
      const node = join('node_modules/.bin/node')
      const said = await account
        .run(
          [
            node,
            'node_modules/vitest/vitest.mjs',
            'run',
            '--configLoader',
            'native',
            '--no-cache',
            '--reporter=json',
            `--outputFile=${result}`,
            ...suites,
          ],
          {
            PATH: `${join(account.home, '../checkout/node_modules/.bin')}:/usr/sbin:/usr/bin:/sbin:/bin`,
            SANDKASTEN_TEST_ACCOUNT: mode,
            SANDKASTEN_RUNNER: inside(runner, account.home),
          },
        )
        .catch((error: { stdout?: string; stderr?: string }) => `${error.stdout}\n${error.stderr}`)
      expect(statSync(result, { throwIfNoEntry: false })?.uid, said).toBe(account.uid)
      const report = JSON.parse(readFileSync(result, 'utf8')) as Report
      const tests = report.testResults.flatMap((file) => file.assertionResults)
      const failed = tests.filter(({ status }) => status === 'failed')
      expect(
        failed.map(({ fullName, failureMessages }) => `${fullName}: ${failureMessages?.join('\n')}`),
      ).toEqual([])
      expect(report.success, said).toBe(true)
      // Every suite was there, and what cannot be tried with one id only was left out.
      expect(report.testResults).toHaveLength(4)
      expect(tests.filter(({ status }) => status === 'passed').length).toBeGreaterThan(300)
      const skipped = tests.filter(({ status }) => status !== 'passed').map(({ title }) => title)
      expect(skipped).toEqual(
        range ? [] : ['its root has three capabilities in its own namespace and no more'],
      )
    },
  )
})

interface Report {
  readonly success: boolean
  readonly testResults: readonly {
    readonly assertionResults: readonly {
      readonly title: string
      readonly fullName: string
      readonly status: string
      readonly failureMessages?: readonly string[]
    }[]
  }[]
}

/** Where the account finds it. */
function inside(path: string, home: string): string {
  return path.startsWith(checkout) ? join(home, '../checkout', path.slice(checkout.length)) : path
}
