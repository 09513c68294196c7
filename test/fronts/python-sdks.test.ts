import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { pythonWith } from '../python.ts'

const missing = await isolationMissing()
const onCi = Boolean(process.env.CI) && process.env.CI !== 'false'

/** Package, version, tour. For each vendor the newest version, and one from about half a year before. */
const sdks: ReadonlyArray<readonly [string, string, string]> = [
  ['opensandbox', '1.1.1', 'opensandbox_tour.py'],
  ['opensandbox', '0.1.8', 'opensandbox_tour.py'],
  ['e2b', '2.63.0', 'e2b_tour.py'],
  // Sends allow_internet_access with every create, and accepts only keys in the vendor's form.
  ['e2b', '2.45.1', 'e2b_tour.py'],
  ['e2b', '2.21.1', 'e2b_tour.py'],
  ['daytona', '0.226.1', 'daytona_tour.py'],
  ['daytona', '0.175.0', 'daytona_tour.py'],
  ['vercel-sandbox', '0.10.0', 'vercel_tour.py'],
  ['vercel-sandbox', '0.4.0', 'vercel_tour.py'],
]

/** The vendors' Python SDKs, unmodified, each in its own virtual environment, against the fronts. */
describe.skipIf(missing)(
  `the vendors’ Python SDKs on their fronts${missing ? ` (skipped: ${missing})` : ''}`,
  { concurrent: true },
  () => {
    let daemon: TestDaemon
    beforeAll(async () => {
      const listen = { listen: '127.0.0.1:0' }
      daemon = await startTestDaemon({
        isolator: 'oci',
        preview_listen: '127.0.0.1:0',
        fronts: { e2b: listen, daytona: listen, vercel: listen, opensandbox: listen },
        images: { ubuntu: 'host' },
        allowed_images: ['host', 'ubuntu'],
      })
    })
    afterAll(() => daemon?.stop())

    const variables = () => {
      const { key } = daemon
      const { e2b, opensandbox, daytona, vercel } = daemon.daemon.fronts
      return {
        PATH: process.env.PATH,
        TOUR: randomUUID(),
        OPEN_SANDBOX_DOMAIN: new URL(opensandbox!).host,
        OPEN_SANDBOX_API_KEY: key,
        E2B_API_URL: e2b,
        E2B_SANDBOX_URL: e2b,
        E2B_API_KEY: `e2b_${Buffer.from(key).toString('hex')}`,
        DAYTONA_API_URL: `${daytona}/api`,
        DAYTONA_API_KEY: key,
        SANDKASTEN_VERCEL_URL: vercel,
        VERCEL_TOKEN: key,
        VERCEL_TEAM_ID: 'team',
        VERCEL_PROJECT_ID: 'project',
      }
    }

    it.for(sdks)('%s %s', { timeout: 300_000 }, async ([name, version, tour], { skip }) => {
      const found = await pythonWith(`${name}==${version}`)
      if ('missing' in found && onCi) throw new Error(found.missing)
      if ('missing' in found) return skip(found.missing)
      const file = path.join(import.meta.dirname, 'python', tour)
      const running = promisify(execFile)(found.python, ['-B', file], { env: variables() })
      const { stdout, stderr, code } = await running.then(
        (result) => ({ ...result, code: 0 }),
        (error: { stdout: string; stderr: string; code: number }) => error,
      )
      expect(stdout.split('\n').filter((line) => line !== '' && !line.startsWith('ok '))).toEqual([])
      expect(code, stderr).toBe(0)
      expect(stdout).toContain('ok ')
    })
  },
)
