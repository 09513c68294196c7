import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { inProcess, sandkasten } from '../helper.ts'

/** `sandkasten code` refuses these before it makes anything. */
let home: string
let env: Record<string, string>
let folder: string
beforeAll(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'sk-code-errors-'))
  folder = path.join(home, 'project')
  env = { HOME: home, SANDKASTEN_HOME: path.join(home, 'data') }
  await mkdir(folder)
  await writeFile(path.join(folder, 'file'), '')
})
afterAll(() => rm(home, { recursive: true, force: true }))

const failing = async (...args: string[]) => {
  const { code, stderr, stdout } = await inProcess(['code', ...args], env)
  expect([code, stdout]).toEqual([125, ''])
  return stderr
}
const prompting = (...args: string[]) => failing(folder, '-p', 'x', ...args)

it.each([
  [[], /No model is configured[\s\S]*--model provider\/model/],
  [['--model', 'm1'], /provider\/model/],
  [['--model-url', 'http://127.0.0.1:9/v1'], /--model-url needs --model/],
  [['--model-url', 'ftp://x'], /Use a URL/],
  [['--model', 'other/m1'], /address of the model provider “other”[\s\S]*--model-url/],
  [
    ['--model', 'local/m', '--model-url', 'http://127.0.0.1:9'],
    /No model answers at http:\/\/127\.0\.0\.1:9/,
  ],
  [['--model', 'openai/m', '--credential', 'ABSENT_KEY'], /ABSENT_KEY is not set/],
  [['--agent', 'none'], /opencode, claude/],
  [['--network', 'none', '--allow', 'github.com', '--model', 'openai/m'], /does not go with --allow/],
  [['--model', 'openai/m', '--provider', 'nowhere'], /no provider “nowhere”/],
  [['--sandbox', 'Not A Name', '--model', 'openai/m'], /name/],
])('%j', async (args, text) => {
  expect(await prompting(...args)).toMatch(text)
})

it('a key instead of the name of its variable is not repeated', async () => {
  const said = await prompting('--model', 'openai/m', '--credential', 'sk-very-secret')
  expect(said).toContain('name of a variable')
  expect(said).not.toContain('very-secret')
})

it('without a terminal it needs a prompt', async () => {
  expect((await sandkasten(['code'], env, { cwd: folder })).stderr).toMatch(/no terminal[\s\S]*-p/)
  expect(await failing(folder, '--json')).toContain('-p')
  expect(await failing(folder, '-p', ' ')).toContain('empty')
  expect((await sandkasten(['code', '-p', '-'], env, { cwd: folder, input: '\n' })).stderr).toContain(
    'stdin is empty',
  )
})

it('a project is a folder, and not everything of this account', async () => {
  expect(await failing(path.join(folder, 'file'), '-p', 'x')).toContain('is not a folder')
  expect(await failing(path.join(folder, 'absent'), '-p', 'x')).toContain('cannot be opened')
  expect(await failing(home, '-p', 'x')).toContain('is no project')
  expect(await failing('/', '-p', 'x')).toContain('is no project')
})

it('git has to be installed', async () => {
  const said = await sandkasten(['code', '-p', 'x'], { ...env, PATH: '/nonexistent' }, { cwd: folder })
  expect(said).toMatchObject({ code: 127, stderr: expect.stringContaining('git is not installed') })
})
