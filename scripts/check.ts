/** `npm run check`: types, lint and the rules of the tree. Fast enough to run before every commit. */
import { installSuites } from './suites.ts'
import { run, stages } from './tools.ts'

await stages([
  { name: 'packages that only some tests need', run: () => installSuites() },
  { name: 'types (tsc)', run: () => run('tsc', ['-p', 'tsconfig.json']) },
  { name: 'lint and format (biome)', run: () => run('biome', ['check', '.']) },
  { name: 'boundaries', run: () => run('vitest', ['run', 'test/boundaries', '--reporter=dot']) },
])
