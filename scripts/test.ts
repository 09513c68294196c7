/** `npm test`: runs everything. Arguments go to vitest: `npm test -- providers/local`. `--yes` installs requirements without asking. */
import { findRust, pathWith, type Rust } from '../packages/engine/src/runner/rust.ts'
import { prepare } from './prepare.ts'
import { run, stages, together } from './tools.ts'

const filters = process.argv.slice(2).filter((argument) => argument !== '--yes')
const yes = process.argv.includes('--yes')
let rust: Rust | undefined
/** Tests that need the binaries of the runner and the gateway. */
const needRunner = [
  'packages/runner-client/test/**',
  'packages/engine/src/runner/**',
  'packages/engine/src/isolators/**',
  'packages/engine/src/images/**',
  'packages/engine/src/provider/**',
  'packages/sdk/src/providers/ssh/runner/*runner.test.ts',
  'packages/cli/test/**',
  'test/clients/conformance.test.ts',
  'test/egress/**',
].map((files) => `--exclude=${files}`)

await stages([
  { name: 'what the tests need', run: () => prepare({ command: 'npm test', yes }) },
  {
    name: 'check, beside the builds of the runner and the gateway',
    run: () => together([run('node', ['scripts/check.ts']), buildAll()]),
  },
  { name: 'runner (cargo)', run: () => testProgram('runner') },
  { name: 'gateway (cargo)', run: () => testProgram('gateway') },
  { name: 'tests', run: testAll },
])

/** Builds the static binaries for the tests. */
async function buildAll(): Promise<number> {
  if (process.platform === 'linux') rust = (await findRust()).rust
  if (!rust) return 0
  const env = { PATH: pathWith(rust) }
  for (const program of ['runner', 'gateway']) {
    const code = await run('./build.sh', [], { cwd: program, env })
    if (code !== 0) return code
  }
  return 0
}

/** Runs the program's own tests. */
async function testProgram(program: 'runner' | 'gateway'): Promise<number> {
  if (!rust) {
    console.log(
      `Skipped the ${program} and the tests that need it: it runs on Linux and is built with Rust, which is missing.`,
    )
    return 0
  }
  const env = { PATH: pathWith(rust) }
  // The gateway's other tests make network namespaces.
  const part = program === 'gateway' && process.getuid?.() !== 0 ? ['--lib'] : []
  if (part.length > 0) console.log('Not as root: only the unit tests of the gateway run.')
  return run('cargo', ['test', '--locked', '--quiet', ...part], { cwd: program, env })
}

async function testAll(): Promise<number> {
  const reporters = ['--reporter=default', '--reporter=./scripts/coverage-reporter.ts']
  return run('vitest', ['run', ...reporters, ...(rust ? [] : needRunner), ...filters])
}
