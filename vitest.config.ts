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
    // On a busy machine an event may take longer than the default second.
    expect: { poll: { timeout: 30_000 } },
    // CI retries a failed test twice, because the tests use real daemons on a busy machine. The end of the run lists the
    // retried tests; treat each as a defect.
    retry: process.env.CI && process.env.CI !== 'false' ? 2 : 0,
    pool: 'forks',
    // Most of the time is spent waiting for sandboxes: two files at a time, also where there are only two cores.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    execArgv: ['--conditions=sandkasten-source'],
  },
})
