/** `npm run check`: types, lint, prose and the rules of the tree. Fast enough to run before every commit. */
import { installSuites } from './suites.ts'
import { run, stages } from './tools.ts'

await stages([
  { name: 'packages that only some tests need', run: () => installSuites() },
  { name: 'types (tsc)', run: () => run('tsc', ['-p', 'tsconfig.json']) },
  { name: 'lint and format (biome)', run: () => run('biome', ['check', '.']) },
  { name: 'prose', run: () => run('node', ['scripts/prose/main.ts']) },
  { name: 'boundaries', run: () => run('vitest', ['run', 'test/boundaries', '--reporter=dot']) },
])
