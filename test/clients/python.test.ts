import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'

const execute = promisify(execFile)
const folder = path.resolve(import.meta.dirname, '../../clients/python')
const readme = readFileSync(path.join(folder, 'README.md'), 'utf8')
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

  it('runs the first plan’s snippet unchanged', async ({ skip }) => {
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

  it('runs the README’s scripts unchanged', { timeout: 60_000 }, async ({ skip }) => {
    if (python) skip(python)
    const scripts = [...readme.matchAll(/```python\n(.*?)```/gs)].map(([, script]) => script!)
    expect(scripts).toHaveLength(2)
    const run = (script: string) =>
      execute('python3', ['-W', 'error', '-c', script], {
        env: {
          PATH: process.env.PATH,
          PYTHONPATH: folder,
          PYTHONDONTWRITEBYTECODE: '1',
          SANDKASTEN_URL: daemon.daemon.url,
          SANDKASTEN_API_KEY: daemon.key,
        },
      })
    expect((await run(scripts[0]!)).stdout).toBe("0 /tmp you in /tmp\n\nb'hello'\nout\n err\n\n")
    expect((await run(scripts[1]!)).stdout).toBe('output 1\n\noutput 2\n\noutput 3\n\nexit None\n')
    const { body } = await daemon.call('GET', '/v1/sessions?status=running')
    expect(body.sessions).toEqual([])
  })

  it('installs with the README’s pip line, and leaves nothing in the source tree', {
    timeout: 180_000,
  }, async ({ skip }) => {
    if (python) skip(python)
    const [line] = /^pip install .*$/m.exec(readme)!
    const root = path.join(folder, '../..')
    const status = async () =>
      (await execute('git', ['status', '--porcelain', '--ignored', '--', folder], { cwd: root })).stdout
    const before = await status()
    const home = await mkdtemp(path.join(tmpdir(), 'sandkasten-python-'))
    try {
      const made = await execute('python3', ['-m', 'venv', home]).catch((error: Error) => error)
      if (made instanceof Error) return skip(`python3 has no venv: ${made.message.split('\n')[0]}`)
      const env = {
        ...process.env,
        PATH: `${home}/bin:${process.env.PATH}`,
        PIP_DISABLE_PIP_VERSION_CHECK: '1',
      }
      const installed = await execute('sh', ['-c', line!], { cwd: root, env }).catch(
        (error: Error & { stderr: string }) => error,
      )
      // The build tool comes from the package index.
      if (
        installed instanceof Error &&
        /No matching distribution|Connection|Temporary failure/.test(installed.stderr)
      )
        return skip('pip cannot reach a package index')
      expect(installed).not.toBeInstanceOf(Error)
      const { stdout } = await execute(
        `${home}/bin/python`,
        ['-c', 'import sandkasten; print(sandkasten.__version__, sandkasten.__file__)'],
        { cwd: home },
      )
      expect(stdout).toMatch(new RegExp(`^\\d+\\.\\d+\\.\\d+ ${home}/`))
      expect(await status()).toBe(before)
    } finally {
      await rm(home, { recursive: true, force: true })
    }
  })
})
