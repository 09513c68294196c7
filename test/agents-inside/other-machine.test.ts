import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { agentMount, type BootstrapOpencodeOptions } from '@sandkasten/opencode'
import type { SandboxHandle } from '@sandkasten/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { startPackageRegistry } from './package-registry.ts'
import { type Surroundings, sh, surroundings } from './surroundings.ts'

const missing = await isolationMissing()
const packages = path.resolve(import.meta.dirname, '../../packages')

/** Bootstraps in processes of their own, of a project that has our packages and no agent. */
describe.skipIf(missing)(`opencode from another project${missing ? ` (${missing})` : ''}`, () => {
  let all: Surroundings
  let project: string
  beforeAll(async () => {
    all = await surroundings()
    project = projectWithoutAgents()
  }, 60_000)
  afterAll(async () => {
    await all?.close()
    if (project) rmSync(project, { recursive: true, force: true })
  }, 60_000)

  interface Outcome {
    stages?: string[]
    reused?: boolean
    client?: string
    error?: { code: string; message: string; hint: string }
  }
  const bootstrap = async (handle: SandboxHandle, options: BootstrapOpencodeOptions): Promise<Outcome> => {
    const given = JSON.stringify({ root: all.root, id: handle.id, options: { ...all.options, ...options } })
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--conditions=sandkasten-source', 'bootstrap.ts', given],
      { cwd: project },
    )
    return JSON.parse(stdout)
  }
  const servers = (handle: SandboxHandle) => sh(handle, 'pgrep -c -f "[o]pencode.* serve" || true')

  it('npm installs the pinned version in the sandbox, from the registry that the sandbox has', async () => {
    const registry = await startPackageRegistry('http://npm.sandkasten.internal')
    try {
      const { port } = registry
      const npm = { host: '127.0.0.1', port }
      const model = { host: '127.0.0.1', port: all.model.port }
      const handle = await all.create({ network: { allow: [], services: { npm, model } } })
      await sh(handle, 'echo "registry=http://npm.sandkasten.internal/" > "$HOME/.npmrc"')
      expect(await bootstrap(handle, {})).toEqual({
        stages: ['inspect', 'install', 'start', 'wait', 'ready'],
        reused: false,
        client: 'sdk_missing: Install it: npm install @opencode-ai/sdk@1',
      })
      expect(registry.downloads.sort()).toEqual(['opencode-ai', `opencode-linux-${process.arch}`])
      expect(await sh(handle, '"$HOME/.local/bin/opencode" --version')).toBe('1.18.33\n')
      expect(await servers(handle)).toBe('1\n')
      // The next start finds it there.
      const again = await bootstrap(handle, { restart: true })
      expect(again.stages).toEqual(['inspect', 'start', 'wait', 'ready'])
      await handle.destroy()
    } finally {
      await registry[Symbol.asyncDispose]()
    }
  }, 180_000)

  it('says what to install where neither the machine nor the sandbox has npm or the program', async () => {
    const handle = await all.create()
    const tools = 'sh uname grep cut sed cat wc mkdir ps find git'
    await sh(handle, `mkdir -p bin; for t in ${tools}; do ln -sf "$(command -v $t)" bin/; done`)
    const { error } = await bootstrap(handle, { envVars: { PATH: '/workspace/bin' } })
    expect(error).toMatchObject({
      code: 'command_not_found',
      message: expect.stringMatching(
        /neither in the sandbox nor on this machine, and the sandbox has no npm/,
      ),
      hint: expect.stringContaining('npm install opencode-ai@1.18.33'),
    })
    await handle.destroy()
  }, 60_000)

  it('processes that start it at the same time share one server, or learn that it runs', async () => {
    const handle = await all.create({ providerOptions: { mounts: [mount()] } })
    const password = 'a-password-that-both-know'
    const same = await Promise.all([1, 2, 3].map(() => bootstrap(handle, { password })))
    expect(same.map(({ error }) => error)).toEqual([undefined, undefined, undefined])
    expect(await servers(handle)).toBe('1\n')
    const strangers = await Promise.all([1, 2].map(() => bootstrap(handle, {})))
    for (const { error } of strangers) expect(error).toMatchObject({ code: 'conflict' })
    expect(await bootstrap(handle, { password })).toMatchObject({ reused: true })

    const fresh = await all.create({ providerOptions: { mounts: [mount()] } })
    const rivals = await Promise.all([1, 2, 3].map(() => bootstrap(fresh, {})))
    expect(rivals.filter(({ reused }) => reused === false)).toHaveLength(1)
    for (const { error } of rivals.filter(({ reused }) => reused === undefined))
      expect(error).toMatchObject({ code: 'conflict', hint: expect.stringContaining('password') })
    expect(await servers(fresh)).toBe('1\n')
  }, 180_000)
})

/** The program of this machine, where a bootstrap of the other project finds it in the sandbox. */
function mount() {
  const found = agentMount('opencode')
  if (!found) throw new Error('opencode is not installed: node scripts/suites.ts opencode')
  return found
}

/** A copy of this package without `node_modules`, so that it finds no program of this workspace. */
function projectWithoutAgents(): string {
  const project = mkdtempSync(path.join(tmpdir(), 'sk-other-machine-'))
  cpSync(path.join(packages, 'opencode/src'), path.join(project, 'opencode'), { recursive: true })
  mkdirSync(path.join(project, 'node_modules/@sandkasten'), { recursive: true })
  for (const name of ['sdk', 'engine'])
    symlinkSync(path.join(packages, name), path.join(project, 'node_modules/@sandkasten', name))
  writeFileSync(path.join(project, 'package.json'), '{"type":"module"}')
  writeFileSync(path.join(project, 'bootstrap.ts'), script)
  return project
}

const script = `
import { EngineProvider } from '@sandkasten/engine'
import { bootstrapOpencode } from './opencode/index.ts'
const { root, id, options } = JSON.parse(process.argv[2])
const provider = new EngineProvider({ root, prepareNext: false })
const stages = []
const onProgress = ({ stage }) => stages.push(stage)
try {
  const { reused, client } = await bootstrapOpencode(await provider.get(id), { ...options, onProgress })
  const loaded = await client().catch(({ code, hint }) => code + ': ' + hint)
  console.log(JSON.stringify({ stages, reused, client: loaded }))
} catch ({ code, message, hint }) {
  console.log(JSON.stringify({ error: { code, message, hint } }))
}
await provider.close()
`
