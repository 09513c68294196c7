/** Uses plain objects as sandboxes; test/worker.test.ts uses real stubs in the real runtime. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { assertHealthy } from './healthcheck.ts'

const target = (status: string, exitCode: number) => ({
  getState: async () => ({ status }),
  exec: async () => ({ exitCode }),
})

test('assertHealthy throws with the reason, or returns the probe', async () => {
  expect(await assertHealthy(target('running', 0))).toMatchObject({ status: 'healthy' })
  await expect(assertHealthy(target('running', 2))).rejects.toThrow(/unhealthy .*exit code 2/)
  await expect(assertHealthy(target('stopped', 0))).rejects.toThrow(/asleep/)
  const never = { getState: () => new Promise<never>(() => {}), exec: async () => ({ exitCode: 0 }) }
  await expect(assertHealthy(never, { timeoutMs: 20 })).rejects.toThrow(/timeout/)
  const gone = { ...target('running', 0), exec: () => Promise.reject(new Error('gone')) }
  await expect(assertHealthy(gone)).rejects.toMatchObject({ cause: new Error('gone') })
})

test.each(['healthcheck', 'preview'])('%s.ts imports nothing, so that it loads in a Worker', (name) => {
  expect(readFileSync(new URL(`./${name}.ts`, import.meta.url), 'utf8')).not.toMatch(
    /^import|\bimport\(|require\(/m,
  )
})
