import { availableParallelism } from 'node:os'
import path from 'node:path'
import { defineConfig } from 'vitest/config'
import LongestFirst from './scripts/test-order.ts'

const conditions = ['sandkasten-source']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ['packages/*/{src,test}/**/*.test.ts', 'test/**/*.test.ts', 'examples/**/*.test.ts'],
    // Print one line for each file; only slow tests get a line of their own.
    slowTestThreshold: 20_000,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // On a busy machine an event may take longer than the default second.
    expect: { poll: { timeout: 30_000 } },
    // CI retries a failed test twice, because the tests use real daemons on a busy machine. The end of the run lists the
    // retried tests; treat each as a defect.
    retry: process.env.CI && process.env.CI !== 'false' ? 2 : 0,
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    // Tests also wait, so three files run at a time on two cores.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    execArgv: ['--conditions=sandkasten-source'],
    // Child processes load the source, too: this saves two thirds of a second for each.
    env: { NODE_COMPILE_CACHE: path.resolve(import.meta.dirname, 'node_modules/.cache/compiled') },
  },
})
