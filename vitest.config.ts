import { defineConfig } from 'vitest/config'

const conditions = ['sandkasten-source']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ['packages/*/{src,test}/**/*.test.ts', 'test/**/*.test.ts', 'examples/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // What is waited for comes when it comes; on a busy machine that may be later than the default second.
    expect: { poll: { timeout: 30_000 } },
    pool: 'forks',
    execArgv: ['--conditions=sandkasten-source'],
  },
})
