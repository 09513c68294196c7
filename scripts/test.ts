/** `npm test`: everything. Arguments go to vitest: `npm test -- providers/local`. */
import { run, stages } from './tools.ts'

const filters = process.argv.slice(2)

await stages([
  { name: 'check', run: () => run('node', ['scripts/check.ts']) },
  {
    name: 'tests',
    run: () =>
      run('vitest', ['run', '--reporter=default', '--reporter=./scripts/coverage-reporter.ts', ...filters]),
  },
])
