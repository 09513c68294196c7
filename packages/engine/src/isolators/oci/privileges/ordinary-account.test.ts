import { chownSync, existsSync, globSync, mkdirSync, readFileSync, rmdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeEach, describe, expect, it } from 'vitest'
import { staticBusybox } from '../../../images/testing/tools.ts'
import { buildRunner } from '../../../runner/build-runner.ts'
import { hasProgram } from '../launch/find-program.ts'
import { layoutOfThisMachine } from '../limits/cgroups.ts'
import { reasonToSkip } from '../testing/bench.ts'
import { type TemporaryAccount, temporaryAccount } from '../testing/temporary-account.ts'

/**
 * The engine without root: runs the conformance kit, the escape corpus and the account tests as two temporary
 * accounts. The first account has a range of ids. The second has only its own id.
 */
const checkout = fileURLToPath(new URL('../../../../../..', import.meta.url))
const suites = [
  'isolators/oci/escape.test',
  'isolators/oci/escape-calls.test',
  'isolators/oci/privileges/as-account.test',
  'isolators/oci/limits/kernel-resources.test',
  'isolators/oci/network/egress.test',
  'provider/conformance/conformance.test',
].map((suite) => `packages/engine/src/${suite}`)
const images = [
  'packages/engine/src/provider/images.test',
  'packages/engine/src/images/import/hostile.test',
  'packages/cli/test/engine/image.test',
]

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
    {
      timeout: 600_000,
    },
    async (mode, range) => {
      if (reason !== undefined) return
      // Without it, the image tests are skipped.
      expect(staticBusybox(), 'needs a static busybox: npm test downloads it on Debian').toBeDefined()
      await using account = await temporaryAccount({ checkout, range })
      // Images contain files of many owners, so they need a range.
      const all = range ? [...suites, ...images] : suites
      const tests = await tryAs(account, all, { SANDKASTEN_TEST_ACCOUNT: mode })
      expect(tests.filter(({ status }) => status === 'passed').length).toBeGreaterThan(300)
      // Tests that need more than one id, or a device that this machine lacks.
      const known = [
        // Without control groups, nothing counts the memory of a sandbox as a whole.
        'TCP buffers: limited to a part of the sandbox’s memory',
        ...(range
          ? [
              'owners, modes, times, links, devices, pipes, long names',
              'root changes files of the image, and a fork keeps them',
              'root uses sudo, its own where the image has one, and a fork keeps it',
            ]
          : [
              'its root has the capabilities of the runner, or if it runs commands those of a package manager',
            ]),
        ...(existsSync('/dev/net') ? [] : ['has an interface of its own, and not the host’s loopback']),
      ]
      const skipped = tests.filter(({ status }) => status !== 'passed').map(({ title }) => title)
      expect(skipped.sort()).toEqual(known.sort())
    },
  )

  it('in a control group that was delegated to it, an account freezes its sandboxes', {
    timeout: 600_000,
  }, async (ctx) => {
    const { v2 } = layoutOfThisMachine()
    if (!v2) return ctx.skip('this machine has no cgroup v2')
    await using account = await temporaryAccount({ checkout, range: true })
    const group = join(v2.root, `sandkasten-test-${account.uid}-${process.pid}`)
    mkdirSync(group)
    try {
      for (const file of ['', 'cgroup.procs', 'cgroup.subtree_control', 'cgroup.threads'])
        chownSync(join(group, file), account.uid, account.uid)
      const suite = suites.filter((name) => name.endsWith('as-account.test'))
      const env = { SANDKASTEN_TEST_ACCOUNT: 'range', SANDKASTEN_TEST_GROUP: group }
      const tests = await tryAs(account, suite, env, group)
      expect(tests.filter(({ status }) => status === 'passed').length).toBeGreaterThan(6)
    } finally {
      await account[Symbol.asyncDispose]()
      const folders = globSync('**/', { cwd: group }).sort((one, other) => other.length - one.length)
      for (const folder of folders) rmdirSync(join(group, folder))
      if (existsSync(group)) rmdirSync(group)
    }
  })
})

/** Runs suites as the account; all that is not skipped must pass. */
async function tryAs(
  account: TemporaryAccount,
  files: readonly string[],
  env: Readonly<Record<string, string>>,
  group?: string,
): Promise<Test[]> {
  const runner = process.env.SANDKASTEN_RUNNER ?? (await buildRunner())
  const result = join(account.home, 'result.json')
  const vitest = ['node_modules/.bin/node', 'node_modules/vitest/vitest.mjs', 'run', ...files]
  // Two accounts run at the same time, beside other test files.
  const workers = '--maxWorkers=2'
  const options = [
    '--configLoader=native',
    '--no-cache',
    '--reporter=json',
    `--outputFile=${result}`,
    workers,
  ]
  const path = `${join(account.home, '../checkout/node_modules/.bin')}:/usr/sbin:/usr/bin:/sbin:/bin`
  const all = { PATH: path, SANDKASTEN_RUNNER: inside(runner, account.home), ...env }
  const said = await account
    .run([...vitest, ...options], all, group)
    .catch((error: { stdout?: string; stderr?: string }) => `${error.stdout}\n${error.stderr}`)
  // The owner of the file proves that the tests ran as the account.
  expect(statSync(result, { throwIfNoEntry: false })?.uid, said).toBe(account.uid)
  const report = JSON.parse(readFileSync(result, 'utf8')) as Report
  const tests = report.testResults.flatMap((file) => file.assertionResults)
  const failed = tests
    .filter(({ status }) => status === 'failed')
    .map(({ fullName, failureMessages }) => `${fullName}: ${failureMessages?.join('\n')}`)
  expect(failed, failed.join('\n')).toEqual([])
  expect(report.success, said).toBe(true)
  return tests
}

interface Test {
  readonly title: string
  readonly fullName: string
  readonly status: string
  readonly failureMessages?: readonly string[]
}

interface Report {
  readonly success: boolean
  readonly testResults: readonly { readonly assertionResults: readonly Test[] }[]
}

/** The path of a file as the account sees it. */
function inside(path: string, home: string): string {
  return path.startsWith(checkout) ? join(home, '../checkout', path.slice(checkout.length)) : path
}
