/** The plugin in the real Vite: build, build watcher and dev server, each in its own process. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { statSync } from 'node:fs'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { PACKAGE, type Project, realProject, SHELL, sandbox } from './project.ts'

const VITE = `${PACKAGE}../../node_modules/.bin/vite`
const FILE = 'src/server/shell.sandbox.ts'

const FILES = {
  'package.json': '{ "type": "module" }',
  'vite.config.ts': `import sandkasten from '@sandkasten/cloudflare/vite'
export default {
  plugins: [sandkasten(JSON.parse(process.env.PLUGIN ?? '{}'))],
  build: { ssr: 'src/index.ts', minify: false, rollupOptions: { external: [/^cloudflare:/, /^@cloudflare/] } },
}
`,
  'src/index.ts':
    "export * from 'virtual:sandkasten/sandboxes'\nexport default { fetch: () => new Response('ok') }\n",
  [FILE]: SHELL,
  'wrangler.jsonc': '{\n  "name": "desk", // kept\n  "main": "src/index.ts",\n}\n',
}

const children: ChildProcess[] = []

afterEach(async () => {
  for (const child of children.splice(0)) {
    const ended = new Promise((resolve) => child.once('exit', resolve))
    if (child.exitCode === null && child.kill('SIGKILL')) await ended
  }
})

function environment(plugin = {}): NodeJS.ProcessEnv {
  const { VITEST: _vitest, ...env } = process.env
  return {
    ...env,
    NODE_OPTIONS: '--conditions=sandkasten-source',
    PLUGIN: JSON.stringify(plugin),
    NO_COLOR: '1',
  }
}

function start({ root }: Project, argv: string[]) {
  const child = spawn(VITE, argv, { cwd: root, env: environment(), stdio: 'pipe' })
  children.push(child)
  let output = ''
  const waiting: { words: RegExp; resolve: () => void }[] = []
  const onData = (data: Buffer) => {
    output += data
    for (const one of waiting) if (one.words.test(output)) one.resolve()
  }
  child.stdout.on('data', onData)
  child.stderr.on('data', onData)
  return {
    child,
    clear: () => {
      output = ''
    },
    says: async (words: RegExp) => {
      if (words.test(output)) return
      await new Promise<void>((resolve, reject) => {
        waiting.push({ words, resolve })
        setTimeout(
          () => reject(new Error(`Vite did not print ${words}; it printed:\n${output}`)),
          20_000,
        ).unref()
      })
    },
  }
}

const build = ({ root }: Project, plugin = {}) =>
  promisify(execFile)(VITE, ['build'], { cwd: root, env: environment(plugin) })

describe('vite build', { timeout: 60_000 }, () => {
  test('syncs before the config is read, and the virtual module exports the classes', async () => {
    const made = realProject(FILES)
    await build(made, { types: true })
    expect(made.read('wrangler.jsonc')).toContain('"SHELL_SANDBOX"')
    expect(made.read('wrangler.jsonc')).toContain('// kept')
    expect(made.read('sandbox-env.d.ts')).toContain('SHELL_SANDBOX')
    expect(made.read('dist/index.js')).toMatch(/export \{[^}]*ContainerProxy[^}]*ShellSandbox[^}]*\}/)
  })

  test('fails on an error, with its position, and changes nothing (K2)', async () => {
    const made = realProject({ ...FILES, [FILE]: 'export default class {{' })
    await expect(build(made)).rejects.toMatchObject({
      stderr: expect.stringContaining(`${FILE}:1:23 error: syntax error`),
    })
    const broken = realProject({ ...FILES, 'wrangler.jsonc': '{ "name": ' })
    await expect(build(broken)).rejects.toMatchObject({
      stderr: expect.stringContaining('wrangler.jsonc:1:11 error'),
    })
    expect(broken.read('wrangler.jsonc')).toBe('{ "name": ')
  })

  test('with check: compares and fails, for CI', async () => {
    const made = realProject(FILES)
    await expect(build(made, { check: true })).rejects.toMatchObject({
      stderr: expect.stringContaining('out of step'),
    })
    expect(made.read('wrangler.jsonc')).toBe(FILES['wrangler.jsonc'])
  })
})

describe('vite dev', { timeout: 60_000 }, () => {
  test('follows added, changed and removed files; a temporary syntax error breaks nothing (K19: and no loop)', async () => {
    const made = realProject(FILES)
    const { says, clear, child } = start(made, ['--port', '0', '--host', '127.0.0.1'])
    await says(/wrote wrangler\.jsonc/)
    await says(/Local:/)
    const bindings = () =>
      [...made.read('wrangler.jsonc').matchAll(/"(\w+_SANDBOX)"/g)].map((match) => match[1])
    expect(bindings()).toEqual(['SHELL_SANDBOX'])

    clear()
    made.write({ 'src/server/deep/python.sandbox.ts': sandbox('PythonSandbox') })
    await says(/wrote wrangler\.jsonc[\s\S]*PYTHON_SANDBOX/)
    expect(bindings()).toEqual(['SHELL_SANDBOX', 'PYTHON_SANDBOX'])

    clear()
    const steady = made.read('wrangler.jsonc')
    made.write({ [FILE]: `${SHELL.slice(0, -6)} static image = ` })
    await says(/the wrangler config was not changed:\s+src\/server\/shell\.sandbox\.ts:\d+:\d+ error/)
    expect(made.read('wrangler.jsonc')).toBe(steady)
    expect(child.exitCode).toBeNull()

    clear()
    made.write({ [FILE]: sandbox('ShellSandbox', 'static maxInstances = 7') })
    await says(/max_instances 7/)
    clear()
    made.remove('src/server/deep/python.sandbox.ts')
    await says(/remove binding PYTHON_SANDBOX/)
    expect(bindings()).toEqual(['SHELL_SANDBOX'])

    // No loop: a sync without changes writes nothing.
    const written = statSync(made.path('wrangler.jsonc')).mtimeMs
    clear()
    made.write({ [FILE]: sandbox('ShellSandbox', 'static maxInstances = 7 // same') })
    made.write({ 'src/server/more.sandbox.ts': 'export default 1' })
    await says(/more\.sandbox\.ts:1:16 error/)
    expect(statSync(made.path('wrangler.jsonc')).mtimeMs).toBe(written)
  })

  test('starts with an invalid file too', async () => {
    const made = realProject({ ...FILES, [FILE]: 'export default class {{' })
    const { says } = start(made, ['--port', '0', '--host', '127.0.0.1'])
    await says(/the wrangler config was not changed/)
    await says(/Local:/)
    made.write({ [FILE]: SHELL })
    await says(/wrote wrangler\.jsonc/)
  })
})

test('vite build --watch syncs again for each rebuild', { timeout: 60_000 }, async () => {
  const made = realProject(FILES)
  const { says, clear } = start(made, ['build', '--watch'])
  await says(/built in/)
  clear()
  made.write({ [FILE]: sandbox('ShellSandbox', 'static maxInstances = 7') })
  await says(/max_instances 7/)
  expect(made.read('wrangler.jsonc')).toContain('"max_instances": 7')
})
