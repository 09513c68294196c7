import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

const conditions = ['sandkasten-source']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ['packages/*/{src,test}/**/*.test.ts', 'test/**/*.test.ts', 'examples/**/*.test.ts'],
    // A file is a line, of which a reader of a long run sees what it is about.
    slowTestThreshold: 20_000,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // What is waited for comes when it comes; on a busy machine that may be later than the default second.
    expect: { poll: { timeout: 30_000 } },
    // Real daemons on a machine that does other things too. On CI up to two more tries, and the end of the run names who needed it: each is a defect, of the
    // test or of what it tests, but not a reason to throw a whole run away.
    retry: process.env.CI && process.env.CI !== 'false' ? 2 : 0,
    pool: 'forks',
    // Most of the time is spent waiting for sandboxes: two files at a time, also where there are only two cores.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    execArgv: ['--conditions=sandkasten-source'],
  },
})
