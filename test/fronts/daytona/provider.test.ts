import { Daytona } from '@daytona/sdk'
import * as older from '@daytonaio/sdk'
import { SandboxError } from '@sandkasten/sdk'
import { DaytonaProvider } from '@sandkasten/sdk/daytona'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'

const missing = await isolationMissing()

describe.skipIf(missing !== undefined)(`the Daytona provider${missing ? ` (${missing})` : ''}`, () => {
  let daemon: TestDaemon
  let provider: DaytonaProvider
  const providerOf = (apiKey: string, sdk?: typeof older) =>
    new DaytonaProvider({
      apiKey,
      apiUrl: `${daemon.daemon.fronts.daytona}/api`,
      target: 'local',
      sdk,
    })

  beforeAll(async () => {
    daemon = await startTestDaemon({
      isolator: 'oci',
      preview_listen: '127.0.0.1:0',
      allowed_images: ['host', 'node:24'],
      images: { 'node:24': 'host' },
      fronts: { daytona: { listen: '127.0.0.1:0' } },
    })
    provider = providerOf(daemon.key)
  })
  afterAll(() => daemon?.stop())

  it('works with the SDK under its old name', async () => {
    const sandbox = await providerOf(daemon.key, older).create({ envVars: { GREETING: 'Hello' } })
    const { stdout } = await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'echo $GREETING'] })
    expect([stdout, await sandbox.destroy()]).toEqual(['Hello\n', true])
  })

  it('getSignedUrl() is a link that needs no header and cannot be changed', async () => {
    const sandbox = await provider.create()
    const script = `require('node:http').createServer((_, a) => a.end('served')).listen(3000, () => console.log('ready'))`
    const server = await sandbox.spawn({ cmd: 'node', args: ['-e', script] })
    for await (const event of server.output()) if (event.type === 'stdout') break
    const url = await provider.getSignedUrl(sandbox.id, 3000, { expiresInSeconds: 60 })
    expect(await visit(url)).toEqual([200, 'served'])
    // Without its signature the link is useless, and so is the endpoint without its header.
    const { url: plain, headers } = await sandbox.getEndpoint(3000)
    expect((await visit(plain))[0]).not.toBe(200)
    expect(await visit(plain, headers)).toEqual([200, 'served'])
    await expect(provider.getSignedUrl(sandbox.id, 0)).rejects.toMatchObject({ code: 'invalid_argument' })
    await sandbox.destroy()
    await expect(provider.getSignedUrl(sandbox.id, 3000)).rejects.toMatchObject({ code: 'not_found' })
  })

  it('accepts resources with an image, and rejects them without one before anything is created', async () => {
    const resources = { vcpus: 1, memoryMb: 1024 }
    await expect(provider.create({ resources })).rejects.toMatchObject({
      code: 'unsupported',
      details: { option: 'resources' },
    })
    expect(await provider.list()).toEqual([])
    const { default_image: image } = daemon.context.config
    const sandbox = await provider.create({ image, resources })
    const session = (await daemon.call('GET', `/v1/sessions/${sandbox.sandboxId}`)).body
    expect(session).toMatchObject({ image, limits: { cpu: 1, memory_mb: 1024 } })
    await sandbox.destroy()
  })

  it('a runtime is a public image by default, and can be given resources', async () => {
    const sandbox = await provider.create({ runtime: 'node24', resources: { vcpus: 1 } })
    const { body } = await daemon.call('GET', `/v1/sessions/${sandbox.sandboxId}`)
    expect(body).toMatchObject({ image: 'node:24', limits: { cpu: 1 } })
    await sandbox.destroy()
  })

  it('auto-stop is the session’s idle time, and disabling it is rejected', async () => {
    const forever = { providerOptions: { autoStopInterval: 0 } }
    await expect(provider.create(forever)).rejects.toMatchObject({ code: 'invalid_argument' })
    // The front cannot pause by itself; this checks the request.
    const paused = { providerOptions: { autoPauseInterval: 5 } }
    await expect(provider.create(paused)).rejects.toMatchObject({ code: 'unsupported' })
    const sandbox = await provider.create()
    expect((await daemon.call('GET', `/v1/sessions/${sandbox.sandboxId}`)).body.ttl_seconds).toBe(15 * 60)
    await sandbox.destroy()
    expect(await provider.list()).toEqual([])
  })

  it('listSnapshots() returns only snapshots made here', async () => {
    const sandbox = await provider.create()
    const { snapshotId } = await sandbox.snapshot({ name: 'mine' })
    const vendor = new Daytona({ apiKey: daemon.key, apiUrl: `${daemon.daemon.fronts.daytona}/api` })
    await (await vendor.get(sandbox.sandboxId)).createSnapshot('theirs')
    expect((await vendor.snapshot.list()).items.map(({ name }) => name)).toEqual(
      expect.arrayContaining([snapshotId, 'theirs']),
    )
    expect(await provider.listSnapshots()).toEqual([
      expect.objectContaining({ snapshotId, name: 'mine', sandboxId: sandbox.sandboxId }),
    ])
    // A snapshot of another origin can still be used by its name.
    const copy = await provider.create({ snapshotId: 'theirs' })
    await copy.destroy()
    await sandbox.destroy()
    await provider.deleteSnapshot(snapshotId)
    await vendor.snapshot.delete('theirs')
    await vendor[Symbol.asyncDispose]()
  })

  it('an exceeded quota is quota_exceeded, not forbidden', async () => {
    const project = (await daemon.call('POST', '/v1/projects', { name: 'small', quotas: { sessions: 1 } }))
      .body.id
    const { key } = (
      await daemon.call('POST', '/v1/keys', { name: 'small', scopes: ['exec'], project_id: project })
    ).body
    const small = providerOf(key)
    const only = await small.create()
    const error = await small.create().catch((thrown: unknown) => thrown)
    expect(SandboxError.is(error, 'quota_exceeded'), String(error)).toBe(true)
    expect((error as SandboxError).cause).toMatchObject({
      message: expect.stringContaining('Maximum allowed: 1.'),
    })
    await only.destroy()
  })
})

async function visit(url: string, headers: Record<string, string> = {}): Promise<[number, string]> {
  const answer = await fetch(url, { headers })
  return [answer.status, await answer.text()]
}
