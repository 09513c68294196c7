import { expect, test } from 'vitest'
import { sync } from '../src/sync.ts'
import { project, SHELL } from './project.ts'

const BLOCKS = `{
	"containers": [
		{
			"name": "shell-sandbox",
			"class_name": "ShellSandbox",
			"image": "docker.io/cloudflare/sandbox:0.8.11",
			"instance_type": "lite"
		}
	],
	"durable_objects": {
		"bindings": [{ "name": "SHELL_SANDBOX", "class_name": "ShellSandbox" }]
	},
	"migrations": [
		{ "tag": "v1", "new_sqlite_classes": ["ShellSandbox"] }
	]
}
`

const PYTHON = `import { Sandbox } from '@cloudflare/sandbox';

export default class PythonSandbox extends Sandbox<Env> {
	static image = 'docker.io/cloudflare/sandbox:0.8.11-python';
	static instanceType = 'standard';
	static maxInstances = 10;
}
`

test('the one-line file gives exactly the blocks of the document (K7: the default instance type is written)', async () => {
  const { root, read } = project({ 'src/server/shell.sandbox.ts': SHELL, 'wrangler.jsonc': '{}\n' })
  const result = await sync({ root })
  expect(read('wrangler.jsonc')).toBe(BLOCKS)
  expect(result.problems).toEqual([])
})

test('the Python tuning example', async () => {
  const { root, read } = project({ 'src/server/python.sandbox.ts': PYTHON, 'wrangler.jsonc': '{}\n' })
  await sync({ root })
  expect(JSON.parse(read('wrangler.jsonc'))).toEqual({
    containers: [
      {
        name: 'python-sandbox',
        class_name: 'PythonSandbox',
        image: 'docker.io/cloudflare/sandbox:0.8.11-python',
        instance_type: 'standard',
        max_instances: 10,
      },
    ],
    durable_objects: { bindings: [{ name: 'PYTHON_SANDBOX', class_name: 'PythonSandbox' }] },
    migrations: [{ tag: 'v1', new_sqlite_classes: ['PythonSandbox'] }],
  })
})

test('two files: each has its own binding, image and class, in one migration', async () => {
  const files = {
    'src/server/shell.sandbox.ts': SHELL,
    'src/server/python.sandbox.ts': PYTHON,
    'wrangler.jsonc': '{}\n',
  }
  const { root, read } = project(files)
  await sync({ root })
  expect(read('wrangler.jsonc')).toBe(`{
	"containers": [
		{
			"name": "python-sandbox",
			"class_name": "PythonSandbox",
			"image": "docker.io/cloudflare/sandbox:0.8.11-python",
			"instance_type": "standard",
			"max_instances": 10
		},
		{
			"name": "shell-sandbox",
			"class_name": "ShellSandbox",
			"image": "docker.io/cloudflare/sandbox:0.8.11",
			"instance_type": "lite"
		}
	],
	"durable_objects": {
		"bindings": [
			{ "name": "PYTHON_SANDBOX", "class_name": "PythonSandbox" },
			{ "name": "SHELL_SANDBOX", "class_name": "ShellSandbox" }
		]
	},
	"migrations": [
		{ "tag": "v1", "new_sqlite_classes": ["PythonSandbox", "ShellSandbox"] }
	]
}
`)
})

test('a file added later gets the next tag and does not change the first', async () => {
  const { root, read, write } = project({ 'src/server/shell.sandbox.ts': SHELL, 'wrangler.jsonc': '{}\n' })
  await sync({ root })
  write({ 'src/server/python.sandbox.ts': PYTHON })
  await sync({ root })
  const config = JSON.parse(read('wrangler.jsonc'))
  expect(config.migrations).toEqual([
    { tag: 'v1', new_sqlite_classes: ['ShellSandbox'] },
    { tag: 'v2', new_sqlite_classes: ['PythonSandbox'] },
  ])
  expect(config.durable_objects.bindings.map(({ name }: { name: string }) => name)).toEqual([
    'SHELL_SANDBOX',
    'PYTHON_SANDBOX',
  ])
  const once = read('wrangler.jsonc')
  expect((await sync({ root })).written).toBe(false)
  expect(read('wrangler.jsonc')).toBe(once)
})
