import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { recipeNames } from '@sandkasten/engine'
import { afterAll, expect, it } from 'vitest'
import { bin } from './helper.ts'

const run = promisify(execFile)
const home = mkdtempSync(path.join(tmpdir(), 'sandkasten-startup-'))
afterAll(() => rmSync(home, { recursive: true, force: true }))

/** Runs the command with a module that runs before it. */
const withModule = (code: string, ...args: string[]) =>
  run(process.execPath, ['--import', `data:text/javascript,${encodeURIComponent(code)}`, bin, ...args], {
    env: { PATH: process.env.PATH, HOME: home },
  })

const printLoaded = `
import { registerHooks } from 'node:module'
const loaded = []
registerHooks({ load: (url, context, next) => { loaded.push(url); return next(url, context) } })
process.on('exit', () => console.error(loaded.join('\\n')))
`

it('--version loads no other module', async () => {
  const { stdout, stderr } = await withModule(printLoaded, '--version')
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  expect(stderr.trim().split('\n')).toEqual([expect.stringContaining('bin/sandkasten.js')])
})

it.each([['--help'], ['run', '--help'], ['image', 'build', '--help']])(
  '%s %s loads no package of ours but this',
  async (...args) => {
    const { stderr } = await withModule(printLoaded, ...args)
    expect(stderr.split('\n').filter((url) => /packages\/(?!cli\/)/.test(url))).toEqual([])
    expect(stderr).toContain('cli/src/main.ts')
  },
)

it('the agent’s side of mcp loads no code of the registry, of a provider or of the engine', async () => {
  const running = withModule(printLoaded, 'mcp', '--sandbox', 'web', '--allow-folder', home)
  running.child.stdin!.end()
  const { stderr } = await running
  expect(stderr).toContain('mcp/src/broker/broker-caller.ts')
  expect(
    stderr
      .split('\n')
      .filter((url) => /packages\/(registry|engine|daemon|database)\/|sdk\/src\/providers/.test(url)),
  ).toEqual([])
})

it('the help of image build names all recipes', async () => {
  const { stdout } = await run(process.execPath, [bin, 'image', 'build', '--help'], { env: { HOME: home } })
  expect(stdout).toContain(`${recipeNames().join(', ')}, or a folder`)
})

it('an old Node gets one line that names the version it needs', async () => {
  const old = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })`
  await expect(withModule(old, 'run', '--', 'true')).rejects.toMatchObject({
    code: 1,
    stdout: '',
    stderr: 'sandkasten needs Node ≥ 22.18, this is 20.20\n',
  })
})

it('compiled code is cached in a folder of this account', async () => {
  await run(process.execPath, [bin, '--help'], { env: { HOME: home } })
  expect(readdirSync(path.join(home, '.cache/sandkasten/node'))).toHaveLength(1)
})

it('a home folder that does not exist is not created', async () => {
  const absent = path.join(home, 'absent')
  await run(process.execPath, [bin, '--help'], { env: { HOME: absent } })
  expect(existsSync(absent)).toBe(false)
})
