/** K14: named environments do not inherit containers or bindings. */
import { expect, test } from 'vitest'
import { problemsOf, project, SHELL, sandbox } from '../../test/project.ts'
import { type SyncOptions, sync } from '../index.ts'

const CONFIG = {
  name: 'desk',
  env: {
    production: { vars: { A: '1' }, migrations: [{ tag: 'p1', new_sqlite_classes: ['Room'] }] },
    staging: {},
  },
}

function world() {
  const made = project({
    'src/server/shell.sandbox.ts': SHELL,
    'wrangler.jsonc': JSON.stringify(CONFIG, null, 2),
  })
  const run = (options: SyncOptions = {}) => sync({ root: made.root, ...options })
  return { ...made, run, value: () => JSON.parse(made.read('wrangler.jsonc')) }
}

test('not chosen: unchanged, with a note for each', async () => {
  const { run, value } = world()
  const { problems } = await run()
  expect(value().env).toEqual(CONFIG.env)
  expect(problems.map(({ code }) => code)).toEqual(['env-left-out', 'env-left-out'])
  expect(problems[0]).toMatchObject({ place: { file: 'wrangler.jsonc', line: 4 } })
  expect(problems[0]?.fix).toContain('--env production')
})

test('chosen: own container name, bindings, and own migrations if it has any; the choice is recorded', async () => {
  const { run, value, write } = world()
  const { problems } = await run({ envs: ['production'] })
  expect(problems.map(({ place }) => place?.line)).toHaveLength(1)
  expect(value().env.production).toEqual({
    ...CONFIG.env.production,
    containers: [
      {
        name: 'shell-sandbox-production',
        class_name: 'ShellSandbox',
        image: 'docker.io/cloudflare/sandbox:0.8.11',
        instance_type: 'lite',
      },
    ],
    durable_objects: { bindings: [{ name: 'SHELL_SANDBOX', class_name: 'ShellSandbox' }] },
    migrations: [...CONFIG.env.production.migrations, { tag: 'p2', new_sqlite_classes: ['ShellSandbox'] }],
  })
  expect(value().env.staging).toEqual({})
  write({ 'src/server/b.sandbox.ts': sandbox('B') })
  await run()
  expect(value().env.production.containers).toHaveLength(2)
  expect(value().env.production.migrations).toHaveLength(3)
})

test('an environment without its own migrations inherits them', async () => {
  const { run, value } = world()
  await run({ envs: ['staging'] })
  expect(value().env.staging).not.toHaveProperty('migrations')
  expect(value().env.staging.containers[0].name).toBe('shell-sandbox-staging')
})

test('all, then none: removes all of our entries there', async () => {
  const { run, value } = world()
  await run({ envs: 'all' })
  expect(value().env.staging.durable_objects.bindings).toHaveLength(1)
  await run({ envs: [] })
  expect(value().env.staging).toEqual({})
  expect(value().containers).toHaveLength(1)
  expect((await run()).written).toBe(false)
})

test('a hand-written entry in an environment is not ours, even if the top-level one is', async () => {
  const { run, read, write } = world()
  await run()
  const config = JSON.parse(read('wrangler.jsonc'))
  config.env.staging.containers = [{ name: 'mine', class_name: 'ShellSandbox', image: 'mine:1' }]
  write({ 'wrangler.jsonc': JSON.stringify(config) })
  const [problem] = await problemsOf(run({ envs: ['staging'] }))
  expect(problem).toMatchObject({ code: 'hand-written' })
})

test('rejects a typo with the existing names', async () => {
  const { run } = world()
  const [problem] = await problemsOf(run({ envs: ['prod'] }))
  expect(problem).toMatchObject({ code: 'no-env' })
  expect(problem?.message).toContain('production, staging')
})
