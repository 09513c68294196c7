/** Migration from the hand-written class "Sandbox" to a sandbox file. K17: finds code that uses env.Sandbox. */
import { describe, expect, test } from 'vitest'
import { problemsOf, project, sandbox } from '../../test/project.ts'
import { check, migrate, sync } from '../index.ts'

const OLD = `{
  // the desk
  "name": "desk",
  "main": "src/index.ts",
  "containers": [
    { "class_name": "Sandbox", "image": "./Dockerfile", "instance_type": "basic", "max_instances": 5 } // tuned
  ],
  "durable_objects": {
    "bindings": [
      { "class_name": "Sandbox", "name": "Sandbox" },
      { "name": "ROOM", "class_name": "Room" }
    ]
  },
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Sandbox", "Room"] }]
}
`

const INDEX = `import { getSandbox, proxyToSandbox as proxy } from '@cloudflare/sandbox'
export { Sandbox } from '@cloudflare/sandbox'
// env.Sandbox in a comment
interface Env { Sandbox: DurableObjectNamespace<Sandbox>; other: string }
export default {
  async fetch(request: Request, env: Env) {
    const preview = await proxy(request, env)
    if (preview) return preview
    const { Sandbox } = env
    return getSandbox(env.Sandbox, 'a')
  },
}
`

const FILES = { 'wrangler.jsonc': OLD, 'src/index.ts': INDEX, Dockerfile: 'FROM cloudflare/sandbox:0.8.11\n' }

test('sync reports the old pattern', async () => {
  const { root } = project({ 'wrangler.jsonc': OLD })
  const { problems } = await sync({ root })
  expect(problems).toMatchObject([{ code: 'old-pattern', place: { file: 'wrangler.jsonc', line: 6 } }])
  expect(problems[0]?.fix).toContain('migrate')
})

test('renames the class instead of creating a new one; keeps tuning, application name, comments and neighbours', async () => {
  const { root, read } = project(FILES)
  const result = await migrate({ root, name: 'shell' })
  expect(read('src/server/shell.sandbox.ts')).toBe(`import { Sandbox } from '@cloudflare/sandbox';

export default class ShellSandbox extends Sandbox<Env> {
	static image = '../../Dockerfile';
	static instanceType = 'basic';
	static maxInstances = 5;
	// The name of the running application: another name would make Cloudflare create a second one.
	static containerName = 'desk-sandbox';
}
`)
  expect(read('wrangler.jsonc')).toBe(`{
  // the desk
  "name": "desk",
  "main": "src/index.ts",
  "containers": [
    { "class_name": "ShellSandbox", "image": "./Dockerfile", "instance_type": "basic", "max_instances": 5, "name": "desk-sandbox" } // tuned
  ],
  "durable_objects": {
    "bindings": [
      { "class_name": "ShellSandbox", "name": "SHELL_SANDBOX" },
      { "name": "ROOM", "class_name": "Room" }
    ]
  },
  "migrations": [
    { "tag": "v1", "new_sqlite_classes": ["Sandbox", "Room"] },
    { "tag": "v2", "renamed_classes": [{ "from": "Sandbox", "to": "ShellSandbox" }] }
  ]
}
`)
  expect(result.problems.filter(({ code }) => code === 'old-pattern')).toEqual([])
  expect((await sync({ root })).problems.filter(({ code }) => code === 'old-pattern')).toEqual([])
  expect(result.written).toBe(true)
  expect(result.steps[0]).toBe('create src/server/shell.sandbox.ts with class ShellSandbox')
  expect(result.steps.at(-1)).toContain('wrangler types')
  expect((await check({ root })).changed).toBe(false)
})

test('names every call site with its replacement, and ignores comments', async () => {
  const { root } = project(FILES)
  const { callSites } = await migrate({ root, dryRun: true })
  expect(callSites.map(({ place, found, instead }) => [place.line, found, instead])).toEqual([
    [4, 'Sandbox: DurableObjectNamespace<Sandbox>;', 'SHELL_SANDBOX: DurableObjectNamespace<ShellSandbox>'],
    [7, 'proxy(request, env)', 'proxy(request, { Sandbox: env.SHELL_SANDBOX })'],
    [9, 'Sandbox', 'SHELL_SANDBOX'],
    [10, 'env.Sandbox', 'env.SHELL_SANDBOX'],
    [2, 'Sandbox', "export { default as ShellSandbox } from './server/shell.sandbox'"],
  ])
})

test('a dry run writes nothing', async () => {
  const { root, read, has } = project(FILES)
  const { diff, source, written } = await migrate({ root, dryRun: true, name: 'box' })
  expect([written, source?.file]).toEqual([false, 'src/server/box.sandbox.ts'])
  expect(diff).toContain('BOX_SANDBOX')
  expect(read('wrangler.jsonc')).toBe(OLD)
  expect(has('src/server/box.sandbox.ts')).toBe(false)
})

test('keepAlias keeps the binding Sandbox, with the new class', async () => {
  const { root, read } = project(FILES)
  await migrate({ root, keepAlias: true })
  const { bindings } = JSON.parse(read('wrangler.jsonc').replace(/\/\/.*/g, '')).durable_objects
  expect(bindings).toEqual([
    { name: 'Sandbox', class_name: 'ShellSandbox' },
    { name: 'ROOM', class_name: 'Room' },
    { name: 'SHELL_SANDBOX', class_name: 'ShellSandbox' },
  ])
  expect((await sync({ root })).written).toBe(false)
})

test('uses an existing file', async () => {
  const { root, read } = project({ ...FILES, 'src/server/term.sandbox.ts': sandbox('Terminal') })
  const { source } = await migrate({ root, name: 'term' })
  expect(source).toBeUndefined()
  expect(read('wrangler.jsonc')).toContain('{ "from": "Sandbox", "to": "Terminal" }')
})

test('includes environments that have the old class', async () => {
  const config = JSON.parse(OLD.replace(/\/\/.*/g, ''))
  config.env = {
    production: { containers: config.containers, durable_objects: config.durable_objects },
    staging: {},
  }
  const { root, read } = project({ ...FILES, 'wrangler.jsonc': JSON.stringify(config) })
  await migrate({ root })
  const { production, staging } = JSON.parse(read('wrangler.jsonc')).env
  expect(production.containers[0]).toMatchObject({
    class_name: 'ShellSandbox',
    name: 'desk-sandbox-production',
  })
  expect(production.durable_objects.bindings[0]).toEqual({
    class_name: 'ShellSandbox',
    name: 'SHELL_SANDBOX',
  })
  expect(staging).toEqual({})
  expect((await sync({ root })).written).toBe(false)
})

test('nothing to migrate, a bad name, a failing write: errors that leave nothing behind', async () => {
  const none = project({ 'wrangler.jsonc': '{}' })
  expect(await problemsOf(migrate({ root: none.root }))).toMatchObject([{ code: 'no-old-pattern' }])
  const { root, read, has } = project({
    'wrangler.toml': '[[containers]]\nclass_name = "Sandbox"\nimage = "a:1"\n',
  })
  expect(await problemsOf(migrate({ root, name: '1x' }))).toMatchObject([{ code: 'bad-file-name' }])
  const [problem] = await problemsOf(migrate({ root }))
  expect(problem).toMatchObject({ code: 'toml-by-hand' })
  expect(problem?.fix).toContain('class_name = "ShellSandbox"')
  expect(has('src/server/shell.sandbox.ts')).toBe(false)
  expect(read('wrangler.toml')).toContain('"Sandbox"')
})

describe('K17: proxyToSandbox sees only env.Sandbox', () => {
  const code = (call: string) =>
    `import { proxyToSandbox } from '@cloudflare/sandbox'\nexport const f = (request, env) => ${call}\n`
  const config = '{ "main": "src/index.ts" }'
  const files = { 'src/server/shell.sandbox.ts': sandbox('ShellSandbox'), 'wrangler.jsonc': config }

  test('warns about a call with the plain env, with the replacement', async () => {
    const { root } = project({ ...files, 'src/previews.ts': code('proxyToSandbox(request, env)') })
    const { problems } = await check({ root })
    expect(problems).toMatchObject([
      { code: 'proxy-to-sandbox', place: { file: 'src/previews.ts', line: 2, column: 36 } },
    ])
    expect(problems[0]?.fix).toBe('write `proxyToSandbox(request, { Sandbox: env.SHELL_SANDBOX })`')
  })

  test('accepts a call that passes the binding, and one with an alias binding', async () => {
    const good = project({
      ...files,
      'src/previews.ts': code('proxyToSandbox(request, { Sandbox: env.SHELL_SANDBOX })'),
    })
    expect((await check({ root: good.root })).problems).toEqual([])
    const alias =
      '{ "durable_objects": { "bindings": [{ "name": "Sandbox", "class_name": "ShellSandbox" }] } }'
    const other = project({
      ...files,
      'wrangler.jsonc': alias,
      'src/previews.ts': code('proxyToSandbox(request, env)'),
    })
    expect((await check({ root: other.root })).problems).toEqual([])
  })

  test('prints the export lines if the Worker exports neither the class nor ContainerProxy', async () => {
    const { root, write } = project({ ...files, 'src/index.ts': 'export default {}\n' })
    const { problems } = await check({ root })
    expect(problems).toMatchObject([{ code: 'not-exported', place: { file: 'src/index.ts' } }])
    expect(problems[0]?.fix).toContain("export { default as ShellSandbox } from './server/shell.sandbox'")
    expect(problems[0]?.fix).toContain("export { ContainerProxy } from '@cloudflare/sandbox'")
    write({
      'src/index.ts': "export * from './all'\nexport default {}\n",
      'src/all.ts': "export { default as ShellSandbox } from './server/shell.sandbox'",
    })
    expect((await check({ root })).problems).toEqual([])
  })
})
