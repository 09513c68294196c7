import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'

const root = path.resolve(import.meta.dirname, '../../..')
const missing = await isolationMissing()

/** The vendor's SDK as in its documentation, in its own process, against the front. */
describe.skipIf(missing !== undefined)(`Daytona’s SDK on the front${missing ? ` (${missing})` : ''}`, () => {
  let daemon: TestDaemon
  beforeAll(async () => {
    daemon = await startTestDaemon({
      isolator: 'oci',
      preview_listen: '127.0.0.1:0',
      fronts: { daytona: { listen: '127.0.0.1:0' } },
    })
  })
  afterAll(() => daemon?.stop())

  const left = async () => (await daemon.call('GET', '/v1/sessions?status=running')).body.sessions.length

  it.each(['daytona', 'migrate-from-daytona', 'daytona-provider'])(
    'examples/fronts/%s.ts prints the content of its .out file, ends by itself, and leaves nothing',
    async (name) => {
      const file = path.join(root, 'examples/fronts', name)
      const url = `${daemon.daemon.fronts.daytona}/api`
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--conditions=sandkasten-source', `${file}.ts`],
        {
          cwd: root,
          env: {
            PATH: process.env.PATH,
            DAYTONA_API_URL: url,
            DAYTONA_API_KEY: daemon.key,
            SANDKASTEN_DAYTONA_URL: url,
            SANDKASTEN_API_KEY: daemon.key,
          },
          timeout: 50_000,
        },
      )
      expect(stdout).toBe(readFileSync(`${file}.out`, 'utf8'))
      expect(await left()).toBe(0)
    },
  )
})
