import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'

const execute = promisify(execFile)
const folder = path.resolve(import.meta.dirname, '../../clients/python')
const python = await execute('python3', ['-c', 'import sys; print(sys.version_info >= (3, 9))']).then(
  ({ stdout }) => (stdout.trim() === 'True' ? undefined : 'python3 is older than 3.9'),
  () => 'python3 is not installed',
)

describe('the Python client', () => {
  let daemon: TestDaemon
  beforeAll(async () => {
    if (!python) daemon = await startTestDaemon()
  })
  afterAll(() => daemon?.stop())

  it('passes its own tests against a real daemon', { timeout: 120_000 }, async ({ skip }) => {
    if (python) skip(python)
    const { stderr } = await execute(
      'python3',
      ['-W', 'error', '-m', 'unittest', 'discover', '-s', 'tests'],
      {
        cwd: folder,
        env: {
          PATH: process.env.PATH,
          PYTHONPATH: folder,
          PYTHONDONTWRITEBYTECODE: '1',
          SANDKASTEN_URL: daemon.daemon.url,
          SANDKASTEN_API_KEY: daemon.key,
        },
      },
    )
    expect(stderr).toMatch(/Ran \d\d tests[\s\S]*\nOK\n/)
  })
})
