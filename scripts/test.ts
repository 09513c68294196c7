/** `npm test`: everything. Arguments go to vitest: `npm test -- providers/local`. */
import { hasCargo, prepare } from './prepare.ts'
import { run, stages } from './tools.ts'

const filters = process.argv.slice(2)
const canBuild = process.platform === 'linux' && hasCargo()
/** What cannot be tried without the runner's binary. */
const needRunner = [
  'packages/engine/src/runner/**',
  'packages/engine/src/isolators/**',
  'packages/engine/src/images/**',
  'packages/engine/src/provider/**',
  'packages/sdk/src/providers/ssh/*runner.test.ts',
  'packages/cli/test/**',
  'test/clients/conformance.test.ts',
].map((files) => `--exclude=${files}`)

await stages([
  { name: 'what the tests need', run: prepare },
  { name: 'check', run: () => run('node', ['scripts/check.ts']) },
  { name: 'runner (cargo)', run: testRunner },
  { name: 'tests', run: testAll },
])

/** The static binary that the tests use, and the runner's own tests. */
async function testRunner(): Promise<number> {
  if (!canBuild) {
    console.log(
      'Skipped, with everything that stands on it: the runner is for Linux, and built with Rust (cargo is not here).',
    )
    return 0
  }
  const built = await run('./build.sh', [], { cwd: 'runner' })
  return built === 0 ? run('cargo', ['test', '--locked', '--quiet'], { cwd: 'runner' }) : built
}

async function testAll(): Promise<number> {
  const reporters = ['--reporter=default', '--reporter=./scripts/coverage-reporter.ts']
  return run('vitest', ['run', ...reporters, ...(canBuild ? [] : needRunner), ...filters])
}
