import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
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
    const image = 'sandbox-runtime:python'
    if (!python)
      daemon = await startTestDaemon({ images: { [image]: 'host' }, allowed_images: ['host', image] })
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

  it('runs the first plan’s snippet as it stands', async ({ skip }) => {
    if (python) skip(python)
    const snippet = readFileSync(path.join(folder, 'tests/first_plan_snippet.py'), 'utf8')
    const placed = snippet
      .replace('http://localhost:8080', daemon.daemon.url)
      .replace('sk-sandbox-...', daemon.key)
    expect(placed).not.toBe(snippet)
    const { stdout } = await execute('python3', ['-c', `${placed}\nimport asyncio\nasyncio.run(main())\n`], {
      env: {
        PATH: process.env.PATH,
        PYTHONPATH: `${folder}:${folder}/tests/double`,
        PYTHONDONTWRITEBYTECODE: '1',
      },
    })
    expect(stdout).toMatch(/^wrote fib\.py\nexit=0\ncwd=.*\/sub\n---\n0 1 1 2 3 5 8 13 \n$/)
    const { body } = await daemon.call('GET', '/v1/sessions?status=running')
    expect(body.sessions).toEqual([])
  })
})
