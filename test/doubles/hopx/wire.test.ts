import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { Sandbox } from '@hopx-ai/sdk'
import { EngineProvider } from '@sandkasten/engine'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'
import { shareHostLayers } from '../../../packages/engine/src/images/testing/shared-host.ts'
import { removeGateway } from '../../../packages/engine/src/provider/test-helper.ts'
import { HopxDouble } from './index.ts'

const missing = await isolationMissing()

/** The double against the SDK's own class, which our provider does not use. */
describe.skipIf(missing !== undefined)(`the double of Hopx’s wire${missing ? ` (${missing})` : ''}`, () => {
  let root: string
  let engine: EngineProvider
  let double: HopxDouble
  let sandbox: Sandbox
  const access = () => ({ apiKey: double.apiKey, baseURL: double.url })

  beforeAll(async () => {
    root = await mkdtemp(path.join(tmpdir(), 'sandkasten-hopx-wire-'))
    await shareHostLayers(path.join(root, 'images'))
    engine = new EngineProvider({ isolator: 'oci', root })
    double = await HopxDouble.start({ engine, hosts: 'paths' })
    sandbox = await Sandbox.create({
      template: 'code-interpreter',
      timeoutSeconds: 600,
      internetAccess: false,
      envVars: { OWN: 'value' },
      ...access(),
    })
  })
  afterAll(async () => {
    await double?.stop()
    await engine?.close()
    if (root) await removeGateway(root)
    if (root) await rm(root, { recursive: true, force: true })
  })

  it('creates, describes and lists', async () => {
    const info = await sandbox.getInfo()
    expect(info).toMatchObject({ sandboxId: sandbox.sandboxId, status: 'running', internetAccess: false })
    const seconds = (Date.parse(info.expiresAt!) - Date.parse(info.createdAt!)) / 1000
    expect(Math.round(seconds)).toBe(600)
    const ids = (await Sandbox.list(access())).map(({ sandboxId }) => sandboxId)
    expect(ids).toEqual([sandbox.sandboxId])
    await expect(Sandbox.create({ template: 'none', ...access() })).rejects.toMatchObject({ statusCode: 404 })
    const wrong = { apiKey: 'wrong', baseURL: double.url }
    await expect(Sandbox.list(wrong)).rejects.toMatchObject({ name: 'AuthenticationError' })
  })

  it('runs commands with the variables of the sandbox and of the call', async () => {
    const how = { workingDir: '/tmp', env: { CALL: 'c' } }
    const result = await sandbox.commands.run('pwd; echo "$OWN $CALL"; echo no >&2; exit 3', how)
    expect(result).toMatchObject({ success: false, exit_code: 3, stdout: '/tmp\nvalue c\n', stderr: 'no\n' })
    await sandbox.env.set('LATER', 'l')
    expect(await sandbox.env.getAll()).toEqual({ OWN: 'value', LATER: 'l' })
  })

  it('reads and writes files', async () => {
    const bytes = Buffer.from([0, 255, 10, 128])
    await sandbox.files.writeBytes('/tmp/d/bytes', bytes, { mode: '0600' })
    expect(await sandbox.files.readBytes('/tmp/d/bytes')).toEqual(bytes)
    await sandbox.files.write('/tmp/d/text', 'täxt')
    expect(await sandbox.files.read('/tmp/d/text')).toBe('täxt')
    const names = (await sandbox.files.list('/tmp/d')).map(({ name, size }) => [name, size])
    expect(names.sort()).toEqual([
      ['bytes', 4],
      ['text', 5],
    ])
    await sandbox.files.remove('/tmp/d/text')
    expect(await sandbox.files.exists('/tmp/d/text')).toBe(false)
    await expect(sandbox.files.read('/tmp/d/text')).rejects.toMatchObject({ code: 'FILE_NOT_FOUND' })
  })

  it('runs the example of the documentation', async () => {
    const example = path.resolve(import.meta.dirname, '../../../examples/fronts/hopx-provider')
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--conditions=sandkasten-source', `${example}.ts`],
      { env: { ...process.env, HOPX_API_KEY: double.apiKey, HOPX_BASE_URL: double.url } },
    )
    expect(stdout).toBe(readFileSync(`${example}.out`, 'utf8'))
  })

  it('renews tokens, pauses, resumes, extends and ends', async () => {
    double.sandboxes.expireTokens(double.sandboxes.get(sandbox.sandboxId)!)
    const again = (of: Sandbox) => of.commands.run('echo again', { workingDir: '/tmp' })
    // The SDK asks for a new token, but sends the old one again; only another object has the new one.
    await expect(again(sandbox)).rejects.toMatchObject({ name: 'TokenExpiredError' })
    const renewed = await Sandbox.connect(sandbox.sandboxId, double.apiKey, double.url)
    expect((await again(renewed)).stdout).toBe('again\n')
    await sandbox.pause()
    expect((await sandbox.getInfo()).status).toBe('paused')
    const connected = await Sandbox.connect(sandbox.sandboxId, double.apiKey, double.url)
    expect((await connected.getInfo()).status).toBe('running')
    await sandbox.setTimeout(1200)
    expect(await sandbox.getTimeToExpiry()).toBeGreaterThan(1100)
    await sandbox.kill()
    await expect(sandbox.getInfo()).rejects.toMatchObject({ name: 'SandboxExpiredError' })
  })
})
