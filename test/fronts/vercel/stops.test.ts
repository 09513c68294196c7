import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'

const missing = await isolationMissing()

/** The vendor's SDK in its own process: an unhandled rejection would end it. */
describe.skipIf(missing)(
  `a sandbox of Vercel’s front that ends under a command${missing ? ` (skipped: ${missing})` : ''}`,
  () => {
    let daemon: TestDaemon
    beforeAll(async () => {
      daemon = await startTestDaemon({ isolator: 'oci', fronts: { vercel: { listen: '127.0.0.1:0' } } })
    })
    afterAll(() => daemon?.stop())

    it.each(['stop', 'delete', 'snapshot', 'expire'])('%s', async (ending) => {
      const readers = ['logs', 'command', 'piped', 'wait', 'output']
      const { stdout, stderr } = await promisify(execFile)(
        process.execPath,
        [path.join(import.meta.dirname, 'stop-child.ts')],
        {
          env: {
            PATH: process.env.PATH,
            FRONT: daemon.daemon.fronts.vercel!,
            KEY: daemon.key,
            RUNS: readers.map((reader) => `${ending}/${reader}`).join(' '),
          },
        },
      )
      const seen = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      const stopped = { error: 'StreamError', code: 'sandbox_stopped' }
      // A wait is not a stream: it returns the exit code of a killed program.
      const expected = (reader: string) => (reader === 'wait' ? { value: { exitCode: 137 } } : stopped)
      expect(seen).toEqual(readers.map((reader) => ({ ending, reader, ...expected(reader) })))
      expect(stderr).toBe('')
    })
  },
)
