import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, constants, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import vm from 'node:vm'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildProgram, buildRunner } from '../../packages/engine/src/runner/build-runner.ts'
import { packages } from '../../scripts/packages.ts'
import { packAll } from '../../scripts/release/pack.ts'

/**
 * The SDK as its users get it: packed and installed into an empty folder outside this workspace. JavaScript uses it on
 * the oldest supported Node. It is also type-checked, and bundled for runtimes other than Node.
 */
const root = path.resolve(import.meta.dirname, '../..')
const run = promisify(execFile)

describe('the packed SDK', () => {
  let folder: string
  const inFolder = (cmd: string, ...args: string[]) =>
    run(path.join(folder, 'node_modules/.bin', cmd), args, { cwd: folder })

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-package-'))
    const { stdout } = await run(
      'npm',
      ['pack', '-w', '@sandkasten/sdk', '--json', '--pack-destination', folder],
      { cwd: root },
    )
    const file = /sandkasten-sdk-[\d.]+\.tgz/.exec(stdout)![0]
    const { devDependencies } = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8'))
    const tools = [
      `typescript@${devDependencies.typescript}`,
      `@types/node@${devDependencies['@types/node']}`,
      'node@22.18.0',
    ]
    await writeFile(
      path.join(folder, 'package.json'),
      JSON.stringify({ name: 'user', private: true, type: 'module' }),
    )
    await run('npm', ['install', '--no-audit', '--no-fund', '--no-save', `./${file}`, ...tools], {
      cwd: folder,
    })
  }, 300_000)
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it('brings no dependency, no source and no test', async () => {
    const installed = path.join(folder, 'node_modules/@sandkasten/sdk')
    const manifest = JSON.parse(await readFile(path.join(installed, 'package.json'), 'utf8'))
    expect(manifest.dependencies).toBeUndefined()
    // Optional peers: npm checks their versions if they are installed, and installs none.
    for (const name of Object.keys(manifest.peerDependencies ?? {}))
      await expect(access(path.join(folder, 'node_modules', name)), name).rejects.toMatchObject({
        code: 'ENOENT',
      })
    const { stdout } = await run('find', ['.', '-type', 'f'], { cwd: installed })
    const files = stdout.trim().split('\n')
    expect(
      files.filter((file) => !/^\.\/(dist\/.*\.(js|d\.ts)|package\.json|README\.md|LICENSE)$/.test(file)),
    ).toEqual([])
    expect(files.filter((file) => /test\b|broken/.test(file) && !file.includes('/testing/'))).toEqual([])
  })

  it('works from JavaScript on plain Node 22', async () => {
    await writeFile(path.join(folder, 'use.js'), useFromJavaScript)
    const { stdout } = await inFolder('node', 'use.js')
    expect(stdout).toBe('v22.18.0 3 hello detached 7 unsupported 6\n')
  })

  it('a vendor whose SDK is not installed is told only when it is used', async () => {
    await writeFile(path.join(folder, 'vendors.js'), useVendors)
    const { stdout } = await inFolder('node', 'vendors.js')
    // A provider that is there says `sdk_missing` and the line that installs it.
    expect(JSON.parse(stdout)).toEqual({
      daytona: 'sdk_missing',
      e2b: 'sdk_missing',
      vercel: 'sdk_missing',
      sprites: 'sdk_missing',
      hopx: 'sdk_missing',
      modal: null,
    })
  })

  it('type-checks from TypeScript, absent abilities included', async () => {
    await writeFile(path.join(folder, 'use.ts'), useFromTypeScript)
    const options = ['--strict', '--noEmit', '--module', 'nodenext', '--target', 'es2024', '--types', 'node']
    await inFolder('tsc', ...options, 'use.ts').catch(({ stdout }) => expect.fail(stdout))
    await writeFile(path.join(folder, 'misuse.ts'), useFromTypeScript.replaceAll('// @ts-expect-error', '//'))
    await expect(inFolder('tsc', ...options, 'misuse.ts')).rejects.toMatchObject({
      stdout: expect.stringContaining("Property 'pause' is missing in type 'LocalCapabilities'"),
    })
  })

  it('the ssh provider’s module loads without ssh2, and says what to install when it is used', async () => {
    await writeFile(path.join(folder, 'ssh.js'), useSsh)
    const { stdout } = await inFolder('node', 'ssh.js')
    expect(stdout).toBe('sdk_missing Install the version that was tested: npm install ssh2@1\n')
  })

  it('loads in a browser bundle: the root, the author’s entry and the memory provider', async () => {
    const code = await bundle('browser', `${useWithoutNode}; answer().then(done, done)`)
    const answer = await new Promise((done) => {
      // Only what a page has: no process, no Buffer, no require.
      const {
        TextEncoder,
        TextDecoder,
        ReadableStream,
        AbortController,
        AbortSignal,
        crypto,
        performance,
        setTimeout,
        clearTimeout,
        btoa,
      } = globalThis
      const page = {
        done,
        TextEncoder,
        TextDecoder,
        ReadableStream,
        AbortController,
        AbortSignal,
        crypto,
        performance,
        setTimeout,
        clearTimeout,
        btoa,
      }
      vm.runInNewContext(code, { ...page, queueMicrotask })
    })
    expect(answer).toBe('page says hello')
  })

  it('loads in a Worker, in the real workerd', async () => {
    const handler = `export default { fetch: async () => new Response(await answer()) }`
    await writeFile(path.join(folder, 'worker.js'), await bundle('worker', `${useWithoutNode}; ${handler}`))
    await writeFile(path.join(folder, 'workerd.capnp'), workerdConfig)
    const workerd = spawn(
      path.join(root, 'node_modules/.bin/workerd'),
      ['serve', '--control-fd=3', 'workerd.capnp'],
      {
        cwd: folder,
        stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
      },
    )
    try {
      const [line] = await once(workerd.stdio[3]!, 'data')
      const { port } = JSON.parse(String(line))
      expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe('page says hello')
    } finally {
      workerd.kill()
    }
  })

  async function bundle(kind: 'browser' | 'worker', contents: string): Promise<string> {
    const { outputFiles } = await build({
      stdin: { contents, resolveDir: folder },
      bundle: true,
      write: false,
      platform: kind === 'browser' ? 'browser' : 'neutral',
      format: kind === 'browser' ? 'iife' : 'esm',
      conditions: kind === 'worker' ? ['workerd', 'worker'] : [],
    })
    return outputFiles[0]!.text
  }
})

/** All that is ours, as one installs it: from packed files, in a folder with nothing of this workspace near it. */
describe('the packed daemon, engine and command', () => {
  let folder: string
  /** Undefined where Rust is missing. */
  let runner: string | undefined
  const node = (...args: string[]) =>
    run(path.join(folder, 'node_modules/.bin/node'), args, {
      cwd: folder,
      env: { PATH: process.env.PATH, HOME: folder },
    })

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-packages-'))
    await run(process.execPath, ['scripts/build.ts'], { cwd: root })
    // A runner for the other processor is not needed here; `npm run release` builds both.
    runner = await buildRunner().catch(() => undefined)
    const gateway = runner === undefined ? undefined : await buildProgram('gateway')
    const files = runner === undefined || gateway === undefined ? undefined : { runner, gateway }
    const binaries = files === undefined ? [] : [{ arch: process.arch, files }]
    const tarballs = await packAll(binaries, path.join(folder, 'tarballs'))
    expect(tarballs).toHaveLength(packages.length - (runner === undefined ? 2 : 1))
    const ours = tarballs.map(({ name, file }) => [name, `file:${file}`])
    await writeFile(
      path.join(folder, 'package.json'),
      JSON.stringify({
        private: true,
        type: 'module',
        dependencies: { ...Object.fromEntries(ours), node: '22.18.0' },
        allowScripts: { node: true },
      }),
    )
    await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline'], { cwd: folder })
  }, 300_000)
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it('each entry can be imported, and is used: a daemon, its client, its provider, the engine', async () => {
    const entries: string[] = []
    for (const name of [
      'sdk',
      'cloudflare',
      'runner-client',
      'database',
      'registry',
      'opencode',
      'mcp',
      'opencode',
      'engine',
      'daemon',
    ]) {
      const manifest = path.join(folder, 'node_modules/@sandkasten', name, 'package.json')
      for (const entry of Object.keys(JSON.parse(await readFile(manifest, 'utf8')).exports))
        if (entry !== './package.json') entries.push(path.posix.join('@sandkasten', name, entry))
    }
    expect(entries.length).toBeGreaterThan(15)
    const imports = entries.map((entry) => `import ${JSON.stringify(entry)}`).join('\n')
    await writeFile(path.join(folder, 'use-all.js'), `${imports}\n${useDaemon}`)
    const { stdout } = await node('--disable-warning=ExperimentalWarning', 'use-all.js')
    expect(stdout).toBe('v22.18.0 hello 3 | provider says 4 | engine says 5\n')
  }, 120_000)

  it('brings what is not code: recipes, the unit, and a license', async () => {
    const at = (name: string) => path.join(folder, 'node_modules', name)
    const { stdout } = await run('find', ['.', '-type', 'f'], { cwd: at('@sandkasten/engine') })
    expect(stdout).toContain('./images/base/Dockerfile')
    const license = await readFile(path.join(root, 'LICENSE'), 'utf8')
    for (const { folder: source, manifest } of packages) {
      expect(await readFile(path.join(source, 'LICENSE'), 'utf8'), manifest.name).toBe(license)
      expect(await readFile(path.join(source, 'README.md'), 'utf8'), manifest.name).toContain(
        `# ${manifest.name}\n`,
      )
    }
    await readFile(at('@sandkasten/daemon/systemd/sandkasten.service'))
    const all = await run('find', ['@sandkasten', 'sandkasten', '-name', '*.ts', '-not', '-name', '*.d.ts'], {
      cwd: at(''),
    })
    expect(all.stdout).toBe('')
  })

  it('the engine uses the runner of its platform package', async ({ skip }) => {
    if (runner === undefined) return skip('the runner is built with Rust, which is not here')
    const installed = path.join(folder, `node_modules/@sandkasten/runner-linux-${process.arch}`)
    await access(path.join(installed, 'runner'), constants.X_OK)
    await access(path.join(installed, 'gateway'), constants.X_OK)
    const { os, cpu } = JSON.parse(await readFile(path.join(installed, 'package.json'), 'utf8'))
    expect({ os, cpu }).toEqual({ os: ['linux'], cpu: [process.arch] })
    await writeFile(path.join(folder, 'locate.js'), useLocate)
    const { stdout } = await node('locate.js')
    expect(stdout.trim()).toBe(await realpath(path.join(installed, 'runner')))
  })

  it('declarations need no package that is not installed with them', async () => {
    await writeFile(path.join(folder, 'use.ts'), useEngineFromTypeScript)
    const options = [
      '--strict',
      '--noEmit',
      '--module',
      'nodenext',
      '--target',
      'es2024',
      '--lib',
      'es2024,esnext.disposable',
    ]
    const tsc = path.join(root, 'node_modules/.bin/tsc')
    await run(tsc, [...options, '--types', 'node', 'use.ts'], { cwd: folder }).catch(({ stdout }) =>
      expect.fail(stdout),
    )
  }, 120_000)

  it('the command runs the daemon and finds it', async () => {
    const bin = path.join(folder, 'node_modules/sandkasten/bin/sandkasten.js')
    const env = { PATH: process.env.PATH, SANDKASTEN_HOME: path.join(folder, 'home'), NODE_NO_WARNINGS: '1' }
    const program = path.join(folder, 'node_modules/.bin/node')
    const up = spawn(program, [bin, 'up', '--isolator', 'process', '--listen', '127.0.0.1:0', '--json'], {
      env: { ...env, SANDKASTEN_LOG_LEVEL: 'warn' },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    try {
      const [line] = await once(up.stdout, 'data')
      expect(JSON.parse(String(line))).toMatchObject({ isolation: 'none', first_key: expect.any(String) })
      const sandkasten = async (...args: string[]) =>
        (await run(program, [bin, ...args], { env })).stdout.trim()
      const id = await sandkasten('sessions', 'create')
      expect(await sandkasten('exec', id, '--', 'echo from the command')).toBe('from the command')
      await sandkasten('sessions', 'destroy', id)
    } finally {
      up.kill('SIGTERM')
      expect(await once(up, 'exit')).toEqual([0, null])
    }
  }, 120_000)

  it('the command serves a sandbox to an agent, through a broker', async () => {
    const at = (name: string) => path.join(folder, 'node_modules/sandkasten/bin', name)
    const data = path.join(folder, 'mcp')
    const env = { PATH: process.env.PATH, HOME: data, SANDKASTEN_HOME: data, NODE_NO_WARNINGS: '1' }
    const program = path.join(folder, 'node_modules/.bin/node')
    const sandkasten = async (...args: string[]) =>
      (await run(program, [at('sandkasten.js'), ...args], { env, cwd: folder })).stdout.trim()
    await sandkasten('sandbox', 'setup', 'engine', '--isolator', 'process')
    await sandkasten('sandbox', 'create', 'web', '--yes')
    const { providerSandboxId } = JSON.parse(await sandkasten('sandbox', 'show', 'web', '--json'))
    const agent = spawn(program, [at('sandbox-mcp-server.js'), providerSandboxId], {
      env,
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    try {
      const lines = createInterface(agent.stdout)[Symbol.asyncIterator]()
      const ask = async (id: number, method: string, params: object) => {
        agent.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
        return JSON.parse((await lines.next()).value!).result
      }
      const clientInfo = { name: 'test', version: '1.0.0' }
      await ask(1, 'initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo })
      const params = { name: 'run_command', arguments: { cmd: 'echo from the packed broker' } }
      const { content } = await ask(2, 'tools/call', params)
      expect(content).toEqual([{ type: 'text', text: 'exit=0\nfrom the packed broker\n' }])
      expect(
        JSON.parse(await sandkasten('mcp', 'install', 'cursor', '--sandbox', 'web', '--print')),
      ).toHaveProperty('mcpServers.sandbox')
    } finally {
      agent.stdin.end()
      await once(agent, 'exit')
      const pid = await readFile(path.join(data, 'registry/mcp/broker.pid'), 'utf8').catch(() => '')
      if (pid !== '') process.kill(Number(pid))
      await sandkasten('sandbox', 'destroy', 'web', '--yes', '--force')
    }
  }, 120_000)

  it('opencode loads the plugin, which starts the command', async ({ skip }) => {
    const binary = opencodeBinary()
    if (binary === undefined) return skip('opencode is not installed: node scripts/suites.ts opencode')
    const project = path.join(folder, 'project')
    const data = path.join(folder, 'opencode')
    const config = path.join(data, '.config/opencode')
    await mkdir(project)
    // Otherwise opencode waits for npm.
    await mkdir(path.join(config, 'node_modules'), { recursive: true })
    const lock = { packages: { '': { dependencies: { '@opencode-ai/plugin': '*' } } } }
    await writeFile(path.join(config, 'package-lock.json'), JSON.stringify(lock))
    await run('git', ['init', '--quiet', project])
    const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.com']
    await run('git', ['-C', project, ...identity, 'commit', '--quiet', '--allow-empty', '-m', 'first'])
    const sandkasten = path.join(folder, 'node_modules/sandkasten/bin/sandkasten.js')
    const options = {
      command: [path.join(folder, 'node_modules/.bin/node'), sandkasten],
      provider: 'nowhere',
    }
    const plugin = [[`file://${path.join(folder, 'node_modules/@sandkasten/opencode')}`, options]]
    const model = 'anthropic/claude-sonnet-4-5'
    const opencode = spawn(binary, ['serve', '--port', '0'], {
      cwd: project,
      env: {
        PATH: process.env.PATH,
        HOME: data,
        SANDKASTEN_HOME: path.join(data, 'data'),
        OPENCODE_EXPERIMENTAL_WORKSPACES: 'true',
        OPENCODE_DISABLE_MODELS_FETCH: '1',
        OPENCODE_DISABLE_AUTOUPDATE: '1',
        OPENCODE_CONFIG_CONTENT: JSON.stringify({ model, plugin }),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    try {
      const lines = createInterface(opencode.stdout)
      const url = await new Promise<string>((resolve) => {
        lines.on('line', (line) => {
          const found = /listening on (http:\S+)/.exec(line)?.[1]
          if (found !== undefined) resolve(found)
        })
      })
      const api = `${url}/experimental/workspace`
      expect(await (await fetch(`${api}/adapter`)).json()).toContainEqual(
        expect.objectContaining({ type: 'sandkasten' }),
      )
      const headers = { 'content-type': 'application/json' }
      const body = JSON.stringify({ type: 'sandkasten' })
      const created = await fetch(api, { method: 'POST', headers, body })
      // The registry of the packed command answers.
      expect([created.status, await created.text()]).toEqual([
        400,
        expect.stringContaining('no provider “nowhere”'),
      ])
    } finally {
      opencode.kill('SIGTERM')
      await once(opencode, 'exit')
    }
  }, 120_000)
})

function opencodeBinary(): string | undefined {
  try {
    const require = createRequire(createRequire(import.meta.url).resolve('opencode-ai/package.json'))
    return require.resolve(`opencode-linux-${process.arch}/bin/opencode`)
  } catch {
    return undefined
  }
}

const useLocate = `
import { locateRunner } from '@sandkasten/engine'
console.log(await locateRunner())
`

const useEngineFromTypeScript = `
import { startDaemon, type DaemonConfig } from '@sandkasten/daemon'
import { EngineProvider } from '@sandkasten/engine'
const sandbox = await new EngineProvider().create()
export const code: number = (await sandbox.runCommand({ cmd: 'true' })).exitCode
export const start = (config: DaemonConfig) => startDaemon({ config })
`

const useDaemon = `
import { configOf, startDaemon } from '@sandkasten/daemon'
import { EngineProvider } from '@sandkasten/engine'
import { SandboxClient } from '@sandkasten/sdk/client'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
const config = configOf({ listen: '127.0.0.1:0', data_dir: 'data', isolator: 'process', api_key: 'sk-0123456789', log_level: 'warn' })
const daemon = await startDaemon({ config })
const client = new SandboxClient({ url: daemon.url, apiKey: 'sk-0123456789' })
const session = await client.createSession()
await session.exec('X=3')
const { output } = await session.exec('echo hello $X')
await session.destroy()
const provider = new DaemonProvider({ url: daemon.url, apiKey: 'sk-0123456789' })
const sandbox = await provider.create()
const said = (await sandbox.runCommand({ cmd: 'echo', args: ['provider says 4'] })).stdout
await sandbox.destroy()
await daemon.close()
const engine = new EngineProvider({ isolator: 'process', root: 'engine' })
const own = await engine.create()
const own_said = (await own.runCommand({ cmd: 'echo', args: ['engine says 5'] })).stdout
await own.destroy()
console.log(process.version, output.trim(), '|', said.trim(), '|', own_said.trim())
`

const useFromJavaScript = `
import { SandboxError, supports } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { behaviours } from '@sandkasten/sdk/testing'
import '@sandkasten/sdk/provider'
import '@sandkasten/sdk/memory'
import '@sandkasten/sdk/auto'
import '@sandkasten/sdk/recipes'
import '@sandkasten/sdk/executor'
const provider = new LocalProvider({ root: 'sandboxes', acceptNoIsolation: true })
const sandbox = await provider.create()
const { exitCode, stdout } = await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'printf hello; exit 3'] })
const detached = await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'printf detached; exit 7'], detached: true })
const result = await detached.wait()
const code = await sandbox.pause().catch((error) => SandboxError.is(error) && error.code)
if (supports(sandbox, 'pause') || behaviours.length < 120) throw new Error('wrong')
const shell = await sandbox.openShell()
await shell.exec('cd /; X=5')
console.log(process.version, exitCode, stdout, result.stdout, result.exitCode, code, (await shell.exec('echo $((X+1))')).output.trim())
await sandbox.destroy()
`

const useSsh = `
import { SshProvider } from '@sandkasten/sdk/ssh'
const provider = new SshProvider({ host: 'nowhere.example', username: 'me', acceptNoIsolation: true })
await provider.create().catch(({ code, hint }) => console.log(code, hint))
`

const useVendors = `
import { autoDetectProvider, detectionTable } from '@sandkasten/sdk/auto'
const answers = {}
for (const { provider, variables, sdk } of detectionTable.filter((row) => row.sdk && row.variables[0])) {
  const env = Object.fromEntries(variables[0].map((name) => [name, 'x']))
  const answer = await Promise.resolve().then(() => autoDetectProvider({ env })?.list() ?? { code: null }).catch((error) => error)
  const told = answer.code !== 'sdk_missing' || (answer.message + answer.hint).includes('npm install ' + sdk)
  answers[provider] = told ? answer.code : 'the install line is missing'
}
console.log(JSON.stringify(answers))
`

const useFromTypeScript = `
import { type SandboxHandle, type SandboxProvider, supports } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { conformance } from '@sandkasten/sdk/testing'
import { uploadProject } from '@sandkasten/sdk/recipes'
import { VercelProvider } from '@sandkasten/sdk/vercel'
const remote = await new VercelProvider({ token: 't', teamId: 't', projectId: 'p' }).create()
await remote.extendTimeout(1000)
// @ts-expect-error
await remote.pause()
const sandbox = await new LocalProvider().create()
const code: number = (await sandbox.runCommand({ cmd: 'true' })).exitCode
// @ts-expect-error
await sandbox.pause()
if (supports(sandbox, 'pause')) await sandbox.pause()
await uploadProject(sandbox, { projectDir: '.' })
export async function any(handle: SandboxHandle) { await handle.pause() }
export const every: SandboxProvider[] = [new LocalProvider(), new MemoryProvider(), new VercelProvider()]
await any(sandbox)
export { code, MemoryProvider, conformance }
`

const useWithoutNode = `
import { SandboxError, failover, keepAlive, supports, withRetry } from '@sandkasten/sdk'
import { DriverProvider } from '@sandkasten/sdk/provider'
import { MemoryProvider } from '@sandkasten/sdk/memory'
async function answer() {
  const full = new MemoryProvider()
  full.fault({ on: 'create', error: 'unavailable' })
  const memory = new MemoryProvider()
  memory.fault({ on: 'create', error: 'rate_limited' })
  const group = failover(full, withRetry(memory, { baseMs: 1 }))
  const one = await group.create({ lifetimeMs: 60000 })
  const heart = keepAlive(one, { leaseMs: 120000 })
  await heart.beat()
  const left = (await one.info()).expiresAt.getTime() - Date.now()
  if (left < 90000 || (await heart.stop()).reason !== 'closed') return 'keepAlive: ' + left
  if (group.explain(one).attempts.length !== 2) return 'failover: ' + group.explain(one)
  await group[Symbol.asyncDispose]()
  const provider = new MemoryProvider()
  provider.command('greet', async ({ args, stdout }) => { await stdout.write(args[0] + ' says hello'); return 0 })
  const sandbox = await provider.create()
  const failed = await sandbox.uploadFile('/etc/passwd', 'x').catch((error) => error.code)
  if (failed !== 'unsupported' && typeof process === 'undefined') return 'uploadFile: ' + failed
  if (!supports(sandbox, 'snapshot') || !SandboxError || !DriverProvider) return 'wrong'
  return (await sandbox.runCommand({ cmd: 'greet', args: ['page'] })).stdout
}
`

const workerdConfig = `
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = (modules = [(name = "worker.js", esModule = embed "worker.js")], compatibilityDate = "2026-01-01"))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
`
