/** `npm test`: everything. Arguments go to vitest: `npm test -- providers/local`. */
import { hasCargo, prepare } from './prepare.ts'
import { run, stages } from './tools.ts'

const filters = process.argv.slice(2)

await stages([
  { name: 'what the tests need', run: prepare },
  { name: 'check', run: () => run('node', ['scripts/check.ts']) },
  { name: 'runner (cargo)', run: testRunner },
  {
    name: 'tests',
    run: () =>
      run('vitest', ['run', '--reporter=default', '--reporter=./scripts/coverage-reporter.ts', ...filters]),
  },
])

/** The static binary that the tests use, and the runner's own tests. */
async function testRunner(): Promise<number> {
  if (process.platform !== 'linux' || !hasCargo()) {
    console.log('Skipped: the runner is for Linux, and built with Rust (https://rustup.rs).')
    return 0
  }
  const built = await run('./build.sh', [], { cwd: 'runner' })
  return built === 0 ? run('cargo', ['test', '--locked', '--quiet'], { cwd: 'runner' }) : built
}
