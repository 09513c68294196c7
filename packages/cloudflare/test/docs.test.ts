import { execFile } from 'node:child_process'
import { cpSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { HELP, parseOptions } from '../src/cli/options.ts'
import { check, generateTypes, sync } from '../src/index.ts'
import { classNameOf } from '../src/migrate/source.ts'
import { namesOf } from '../src/plan/names.ts'
import { PACKAGE, project, realProject } from './project.ts'

const DOC = readFileSync(`${PACKAGE}../../docs/cloudflare.md`, 'utf8')
const EXAMPLE = `${PACKAGE}../../examples/cloudflare`
const blocks = [...DOC.matchAll(/```(\w+)\n([\s\S]*?)```/g)].map(([, language, text]) => ({
  language,
  text: text!,
}))

test('the first example, run', async () => {
  const source = blocks.find(({ language }) => language === 'ts')!.text
  const after = blocks.find(({ language }) => language === 'json5')!.text
  const before = '{\n  "name": "desk", // yours, and stays\n  "main": "src/index.ts"\n}\n'
  const files = { 'src/server/shell.sandbox.ts': source, 'wrangler.jsonc': before }
  const { root, read } = project(files, '0.12.10')
  expect((await sync({ root })).problems).toEqual([])
  expect(read('wrangler.jsonc')).toBe(after)
})

test('the naming table', () => {
  const rows = [...DOC.matchAll(/^\| `([\w-]+)\.sandbox\.ts` +\| `(\w+)` +\| `([\w-]+)` +\| `(\w+)` +\|$/gm)]
  expect(rows).toHaveLength(3)
  for (const [, base, binding, container, className] of rows) {
    expect(namesOf(base!)).toEqual({ binding, container })
    expect(classNameOf(base!)).toBe(className)
  }
})

test('every option in the document exists, and every command is documented', () => {
  for (const [flag] of DOC.matchAll(/(?<=[ `])--[a-z][a-z-]+/g)) expect(HELP, flag).toContain(flag)
  for (const command of ['sync', 'check', 'migrate', 'types']) {
    expect(DOC).toContain(`sandkasten cloudflare ${command}`)
    expect(parseOptions([command])?.command).toBe(command)
  }
})

test('the example and its types are in step, and wrangler accepts it', { timeout: 60_000 }, async () => {
  expect(await check({ root: EXAMPLE })).toMatchObject({ changed: false, problems: [] })
  const { root, path } = realProject({})
  cpSync(EXAMPLE, path('example'), { recursive: true })
  expect((await generateTypes({ root: EXAMPLE, dryRun: true })).changed).toBe(false)
  // Wrangler resolves published files; here the sources replace dist/.
  const alias = ['healthcheck', 'preview'].flatMap((name) => [
    '--alias',
    `@sandkasten/cloudflare/${name}:${PACKAGE}src/${name}.ts`,
  ])
  const argv = ['deploy', '--dry-run', '--containers-rollout=none', ...alias]
  const env = { ...process.env, CI: '1', WRANGLER_SEND_METRICS: 'false', XDG_CONFIG_HOME: `${root}/.config` }
  const wrangler = `${PACKAGE}../../node_modules/.bin/wrangler`
  const { stdout } = await promisify(execFile)(wrangler, argv, { cwd: path('example'), env })
  expect(stdout).toContain('env.SHELL_SANDBOX (ShellSandbox)')
  expect(stdout).toContain('- python-sandbox (docker.io/cloudflare/sandbox:0.12.10-python)')
})
