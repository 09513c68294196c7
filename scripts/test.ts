/** `npm test`: runs everything. Arguments go to vitest: `npm test -- providers/local`. `--yes` installs requirements without asking. */
import { findRust, pathWith, type Rust } from '../packages/engine/src/runner/rust.ts'
import { prepare } from './prepare.ts'
import { run, stages } from './tools.ts'

const filters = process.argv.slice(2).filter((argument) => argument !== '--yes')
const yes = process.argv.includes('--yes')
let rust: Rust | undefined
/** Tests that need the runner's binary. */
const needRunner = [
  'packages/runner-client/test/**',
  'packages/engine/src/runner/**',
  'packages/engine/src/isolators/**',
  'packages/engine/src/images/**',
  'packages/engine/src/provider/**',
  'packages/sdk/src/providers/ssh/runner/*runner.test.ts',
  'packages/cli/test/**',
  'test/clients/conformance.test.ts',
].map((files) => `--exclude=${files}`)

await stages([
  { name: 'what the tests need', run: () => prepare({ command: 'npm test', yes }) },
  { name: 'check', run: () => run('node', ['scripts/check.ts']) },
  { name: 'runner (cargo)', run: testRunner },
  { name: 'tests', run: testAll },
])

/** Builds the static binary for the tests, and runs the runner's own tests. */
async function testRunner(): Promise<number> {
  if (process.platform === 'linux') rust = (await findRust()).rust
  if (!rust) {
    console.log(
      'Skipped the runner and the tests that need it: it runs on Linux and is built with Rust, which is missing.',
    )
    return 0
  }
  const env = { PATH: pathWith(rust) }
  const built = await run('./build.sh', [], { cwd: 'runner', env })
  return built === 0 ? run('cargo', ['test', '--locked', '--quiet'], { cwd: 'runner', env }) : built
}

async function testAll(): Promise<number> {
  const reporters = ['--reporter=default', '--reporter=./scripts/coverage-reporter.ts']
  return run('vitest', ['run', ...reporters, ...(rust ? [] : needRunner), ...filters])
}
