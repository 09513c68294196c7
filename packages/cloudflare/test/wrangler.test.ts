/**
 * The real wrangler, offline, accepts our output: it bundles the Worker, checks the config and lists what it would
 * deploy.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { run } from '../src/cli.ts'
import { check, migrate, sync } from '../src/index.ts'
import { PACKAGE, type Project, realProject, SHELL, sandbox } from './project.ts'

const WRANGLER = `${PACKAGE}../../node_modules/.bin/wrangler`
const BASE = {
  name: 'desk',
  main: 'src/index.ts',
  compatibility_date: '2026-01-01',
  compatibility_flags: ['nodejs_compat'],
}
const INDEX = `export { default as ShellSandbox } from './server/shell.sandbox'
export { default as PythonSandbox } from './server/python.sandbox'
export { ContainerProxy } from '@cloudflare/sandbox'
export default { fetch: () => new Response('ok') }
`
const FILES = {
  'src/index.ts': INDEX,
  'src/server/shell.sandbox.ts': SHELL,
  'src/server/python.sandbox.ts': sandbox(
    'PythonSandbox',
    "static instanceType = 'standard-1'\nstatic maxInstances = 10",
  ),
  'src/server/python.Dockerfile': 'FROM docker.io/cloudflare/sandbox:0.12.10\n',
}

async function wrangler({ root }: Project, ...argv: string[]): Promise<string> {
  // A dry run needs no account, Docker or network. Its files go into the project, not into a home folder.
  const offline = { CI: '1', WRANGLER_SEND_METRICS: 'false', XDG_CONFIG_HOME: `${root}/.config` }
  const { stdout, stderr } = await promisify(execFile)(WRANGLER, argv, {
    cwd: root,
    env: { ...process.env, ...offline },
  })
  return stdout + stderr
}

const dryRun = (project: Project, ...more: string[]) =>
  wrangler(project, 'deploy', '--dry-run', '--containers-rollout=none', ...more)

test('deploy --dry-run and types: two sandboxes, an image and a Dockerfile, a named environment', {
  timeout: 60_000,
}, async () => {
  const config = `${JSON.stringify({ ...BASE, env: { production: {} } }, null, 2).replace('"desk",', '"desk", // ours')}\n`
  const made = realProject({ ...FILES, 'wrangler.jsonc': config })
  const { problems } = await sync({ root: made.root, envs: 'all' })
  expect(problems).toEqual([])
  const top = await dryRun(made, '--env', '')
  expect(top).toContain('env.SHELL_SANDBOX (ShellSandbox)')
  expect(top).toContain('env.PYTHON_SANDBOX (PythonSandbox)')
  expect(top).toContain('- shell-sandbox (docker.io/cloudflare/sandbox:0.12.10)')
  expect(top).toMatch(/- python-sandbox \(.*src\/server\/python\.Dockerfile\)/)
  expect(top).not.toMatch(/WARNING|ERROR/)
  const production = await dryRun(made, '--env', 'production')
  expect(production).toContain('- shell-sandbox-production (docker.io/cloudflare/sandbox:0.12.10)')
  expect(production).not.toMatch(/WARNING|ERROR/)
  await wrangler(made, 'types', '--include-runtime=false')
  expect(made.read('worker-configuration.d.ts')).toContain(
    'SHELL_SANDBOX: DurableObjectNamespace<import("./src/index").ShellSandbox>',
  )
})

test('deploy --dry-run after a rename, a removal with deletion, and a migration from the old pattern', {
  timeout: 60_000,
}, async () => {
  const old = {
    ...BASE,
    containers: [{ class_name: 'Sandbox', image: 'docker.io/cloudflare/sandbox:0.12.10' }],
    durable_objects: { bindings: [{ name: 'Sandbox', class_name: 'Sandbox' }] },
    migrations: [{ tag: 'v1', new_sqlite_classes: ['Sandbox'] }],
  }
  const made = realProject({
    'src/server/python.sandbox.ts': sandbox('PythonSandbox'),
    'wrangler.jsonc': JSON.stringify(old),
  })
  const { root, write, remove, read } = made
  await migrate({ root, name: 'shell' })
  write({
    'src/server/shell.sandbox.ts': read('src/server/shell.sandbox.ts').replace('ShellSandbox', 'Terminal'),
  })
  await sync({ root })
  remove('src/server/python.sandbox.ts')
  await sync({ root, deleteClasses: ['PythonSandbox'] })
  write({
    'src/index.ts':
      "export { default as Terminal } from './server/shell.sandbox'\nexport default { fetch: () => new Response('ok') }\n",
  })
  expect((await check({ root })).problems).toEqual([])
  const output = await dryRun(made)
  expect(output).toContain('env.SHELL_SANDBOX (Terminal)')
  expect(output).toContain('- desk-sandbox (docker.io/cloudflare/sandbox:0.12.10)')
  expect(output).not.toMatch(/WARNING|ERROR/)
})

test('deploy --dry-run with the TOML that check printed', { timeout: 60_000 }, async () => {
  const toml =
    'name = "desk"\nmain = "src/index.ts"\ncompatibility_date = "2026-01-01"\ncompatibility_flags = ["nodejs_compat"]\n'
  const made = realProject({ ...FILES, 'wrangler.toml': toml })
  let out = ''
  const io = {
    cwd: made.root,
    stderr: () => {},
    stdout: (text: string) => {
      out += text
    },
  }
  expect(await run(['check', '--json'], io)).toBe(1)
  made.write({ 'wrangler.toml': `${toml}\n${JSON.parse(out).instructions}` })
  expect(await run(['check'], io)).toBe(1)
  expect(await run(['sync'], io)).toBe(0)
  expect(await run(['check'], io)).toBe(0)
  expect(await dryRun(made)).toContain('env.PYTHON_SANDBOX (PythonSandbox)')
})
