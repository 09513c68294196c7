import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'

const root = path.resolve(import.meta.dirname, '../..')
const missing = await isolationMissing()

describe.skipIf(missing)(`the front of OpenSandbox${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let daemon: TestDaemon
  beforeAll(async () => {
    daemon = await startTestDaemon({
      isolator: 'oci',
      preview_listen: '127.0.0.1:0',
      fronts: { opensandbox: { listen: '127.0.0.1:0' } },
      images: { ubuntu: 'host' },
      allowed_images: ['host', 'ubuntu'],
      reaper_interval_seconds: 0.25,
    })
  })
  afterAll(() => daemon?.stop())
  const front = () => daemon.daemon.fronts.opensandbox!

  it('examples/fronts/opensandbox.ts prints what is written beside it', async () => {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--conditions=sandkasten-source', path.join(root, 'examples/fronts/opensandbox.ts')],
      {
        cwd: root,
        env: {
          PATH: process.env.PATH,
          OPEN_SANDBOX_DOMAIN: front().replace('http://', ''),
          OPEN_SANDBOX_API_KEY: daemon.key,
        },
      },
    )
    expect(stdout).toBe(readFileSync(path.join(root, 'examples/fronts/opensandbox.out'), 'utf8'))
  })
})
