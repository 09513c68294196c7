import { describe, expect, test } from 'vitest'
import { project, SHELL, sandbox } from '../test/project.ts'
import { run } from './cli.ts'

const FILE = 'src/server/shell.sandbox.ts'

async function call(cwd: string, ...argv: string[]) {
  const out = { stdout: '', stderr: '' }
  const code = await run(argv, {
    cwd,
    stdout: (text) => {
      out.stdout += text
    },
    stderr: (text) => {
      out.stderr += text
    },
  })
  return { code, ...out }
}

test('check, sync, check: 1, 0, 0; check shows the difference first', async () => {
  const { root, read } = project({ [FILE]: SHELL, 'wrangler.jsonc': '{\n  "name": "desk" // x\n}\n' })
  const before = await call(root, 'check')
  expect(before.code).toBe(1)
  expect(before.stdout).toContain('+  "containers": [')
  expect(before.stdout).toContain('-  "name": "desk" // x')
  expect(before.stdout).toContain('add binding SHELL_SANDBOX (src/server/shell.sandbox.ts)')
  const dry = await call(root, 'sync', '--dry-run')
  expect(dry.code).toBe(0)
  expect(dry.stdout).toContain('+  "containers": [')
  expect(read('wrangler.jsonc')).toBe('{\n  "name": "desk" // x\n}\n')
  const synced = await call(root, 'sync')
  expect(synced).toMatchObject({ code: 0, stderr: '' })
  expect(synced.stdout).toContain('run `wrangler types`')
  expect(await call(root, 'check')).toMatchObject({
    code: 0,
    stdout: 'wrangler.jsonc is in step (1 sandbox)\n',
  })
  expect(await call(root, 'sync')).toMatchObject({
    code: 0,
    stdout: 'wrangler.jsonc is in step (1 sandbox)\n',
  })
})

test('an error exits with 2 and prints place and fix on stderr', async () => {
  const { root } = project({ [FILE]: 'export default class {{', 'wrangler.jsonc': '{}' })
  const { code, stdout, stderr } = await call(root, 'sync')
  expect(code).toBe(2)
  expect(stdout).toBe('')
  expect(stderr).toMatch(/^src\/server\/shell\.sandbox\.ts:1:23 error: syntax error/)
})

test('--json prints one object, also for errors', async () => {
  const { root } = project({ [FILE]: SHELL, 'wrangler.jsonc': '{}' })
  const good = JSON.parse((await call(root, 'check', '--json')).stdout)
  expect(good).toMatchObject({
    ok: false,
    command: 'check',
    exitCode: 1,
    changed: true,
    written: false,
    sandboxes: [{ binding: 'SHELL_SANDBOX', className: 'ShellSandbox' }],
  })
  const bad = JSON.parse((await call(root, 'sync', '--json', '--dir', 'nowhere')).stdout)
  expect(bad).toMatchObject({ ok: false, exitCode: 2, problems: [{ code: 'no-dir' }] })
  const lost = JSON.parse((await call(root, 'sync', '--json', '--root', 'nowhere')).stdout)
  expect(lost).toMatchObject({ exitCode: 2, problems: [{ code: 'no-dir' }] })
  const usage = JSON.parse((await call(root, 'sink', '--json')).stdout)
  expect(usage).toMatchObject({ ok: false, exitCode: 2, problems: [{ code: 'usage' }] })
})

test.each([
  [['synk'], /did you mean sync/],
  [['sync', '--dri-run'], /--dry-run/],
  [['sync', '--evn', 'x'], /--env/],
  [['sync', 'extra'], /unexpected argument/],
  [['check', '--name', 'x'], /--name is not valid for check/],
  [['check', '--dry-run'], /--dry-run is not valid for check/],
  [['sync', '--rename', 'A'], /OldClass=NewClass/],
  [['sync', '--config'], /config/],
  [['--json-lines'], /no option --json-lines/],
])('%j is a usage error', async (argv, message) => {
  const { root } = project({})
  const { code, stderr } = await call(root, ...argv)
  expect(code).toBe(2)
  expect(stderr).toMatch(message)
})

test('help, and an empty project', async () => {
  const { root } = project({})
  expect(await call(root)).toMatchObject({ code: 0, stdout: expect.stringContaining('--delete-class') })
  expect(await call(root, 'sync', '--help')).toMatchObject({ code: 0 })
  expect(await call(root, 'sync')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('nothing to do'),
  })
})

test('sandbox files without a config: prints what to create', async () => {
  const { root } = project({ [FILE]: SHELL })
  const { code, stderr } = await call(root, 'sync')
  expect(code).toBe(2)
  expect(stderr).toContain('wrangler.jsonc error: there is no such wrangler config')
  expect((await call(root, 'sync', '--config', 'wrnagler.json')).stderr).toContain('wrnagler.json error')
})

test('a folder in place of the config is an error without a stack', async () => {
  const { root } = project({ [FILE]: SHELL, 'wrangler.jsonc/x': '' })
  const { code, stderr } = await call(root, 'sync')
  expect(code).toBe(2)
  expect(stderr).toMatch(/^error: EISDIR/)
  expect(stderr).not.toContain('    at ')
})

test('writes the file that wrangler reads, and points at the other', async () => {
  const { root, read } = project({ [FILE]: SHELL, 'wrangler.json': '{}', 'wrangler.jsonc': '{}' })
  const { stderr } = await call(root, 'sync')
  expect(stderr).toContain('wrangler reads wrangler.json and ignores this file')
  expect(read('wrangler.json')).toContain('SHELL_SANDBOX')
  expect(read('wrangler.jsonc')).toBe('{}')
})

test('--strict: a warning prevents writing', async () => {
  const { root, read } = project({
    [FILE]: sandbox('ShellSandbox', "static instance_type = 'basic'"),
    'wrangler.jsonc': '{}',
  })
  expect((await call(root, 'sync', '--strict')).code).toBe(2)
  expect(read('wrangler.jsonc')).toBe('{}')
  expect((await call(root, 'sync')).code).toBe(0)
})

test('environments, deletion and renames by flag', async () => {
  const { root, read, remove } = project({
    [FILE]: SHELL,
    'wrangler.jsonc': '{ "env": { "a": {}, "b": {} } }',
  })
  const value = () => JSON.parse(read('wrangler.jsonc'))
  await call(root, 'sync', '--env', 'a,b')
  expect([value().env.a.containers.length, value().env.b.containers.length]).toEqual([1, 1])
  await call(root, 'sync', '--no-envs')
  expect(value().env).toEqual({ a: {}, b: {} })
  remove(FILE)
  await call(root, 'sync', '--delete-class', 'ShellSandbox')
  expect(value().migrations.at(-1)).toEqual({ tag: 'v2', deleted_classes: ['ShellSandbox'] })
})

describe('TOML is read, and instructions are printed', () => {
  const TOML = 'name = "desk"\n# mine\n[[durable_objects.bindings]]\nname = "ROOM"\nclass_name = "Room"\n'

  test('check prints tables to paste; once they are there, sync records them', async () => {
    const { root, read, write, has } = project({ [FILE]: SHELL, 'wrangler.toml': TOML })
    const { code, stdout } = await call(root, 'check')
    expect(code).toBe(1)
    expect(stdout).toContain('[[containers]]\nname = "shell-sandbox"\nclass_name = "ShellSandbox"')
    const refused = await call(root, 'sync')
    expect(refused.code).toBe(2)
    expect(refused.stderr).toContain('TOML is read but not written')
    expect(read('wrangler.toml')).toBe(TOML)
    expect(has('wrangler.sandboxes.json')).toBe(false)
    const { instructions } = JSON.parse((await call(root, 'check', '--json')).stdout)
    write({ 'wrangler.toml': `${TOML}\n${instructions}` })
    expect(await call(root, 'sync')).toMatchObject({ code: 0, stderr: '' })
    expect(await call(root, 'check')).toMatchObject({ code: 0 })
    write({ [FILE]: sandbox('Terminal') })
    const renamed = await call(root, 'check')
    expect(renamed.stdout).toContain('class_name = "Terminal"')
    expect(renamed.stdout).toContain('renamed_classes = [{ from = "ShellSandbox", to = "Terminal" }]')
    const edits = JSON.parse((await call(root, 'check', '--json')).stdout).instructions as string
    const migration = edits.slice(edits.indexOf('[[migrations]]'))
    write({
      'wrangler.toml': `${read('wrangler.toml').replaceAll('class_name = "ShellSandbox"', 'class_name = "Terminal"')}\n${migration}`,
    })
    expect(await call(root, 'sync')).toMatchObject({ code: 0, stderr: '' })
  })

  test('an invalid one is an error with its place', async () => {
    const { root } = project({ [FILE]: SHELL, 'wrangler.toml': 'name = "desk"\nmain = \n' })
    const { code, stderr } = await call(root, 'check')
    expect(code).toBe(2)
    expect(stderr).toMatch(/^wrangler\.toml:2:\d+ error: not valid TOML/)
  })
})
