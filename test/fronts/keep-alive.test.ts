import { keepAlive, type SandboxCore } from '@sandkasten/sdk'
import { DaytonaProvider } from '@sandkasten/sdk/daytona'
import { E2BProvider } from '@sandkasten/sdk/e2b'
import { VercelProvider } from '@sandkasten/sdk/vercel'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'

const missing = await isolationMissing()
const leaseMs = 600_000

/** One helper on three vendors' SDKs, checked against the servers' end times. */
describe.skipIf(missing !== undefined)(`keepAlive${missing ? ` (${missing})` : ''}`, () => {
  let daemon: TestDaemon
  beforeAll(async () => {
    daemon = await startTestDaemon({
      isolator: 'oci',
      preview_listen: '127.0.0.1:0',
      fronts: {
        daytona: { listen: '127.0.0.1:0' },
        e2b: { listen: '127.0.0.1:0' },
        vercel: { listen: '127.0.0.1:0' },
      },
    })
  })
  afterAll(() => daemon?.stop())

  const session = async () => (await daemon.call('GET', '/v1/sessions?status=running')).body.sessions[0]
  const endOf = async (sandbox: SandboxCore) => (await sandbox.info()).expiresAt!.getTime()
  const thrown: unknown[] = []
  const options = { leaseMs, everyMs: 100, onError: (error: unknown) => thrown.push(error) }

  it('extends E2B’s sandbox to one lease from now', async () => {
    const url = daemon.daemon.fronts.e2b!
    const provider = new E2BProvider({ apiKey: daemon.key, apiUrl: url, sandboxUrl: url })
    await putsOff(await provider.create({ lifetimeMs: 60_000 }))
  })

  it('extends Vercel’s sandbox to one lease from now', async () => {
    const baseUrl = daemon.daemon.fronts.vercel!
    const provider = new VercelProvider({ token: daemon.key, teamId: 'team', projectId: 'project', baseUrl })
    await putsOff(await provider.create({ lifetimeMs: 60_000 }))
  })

  async function putsOff(sandbox: Parameters<typeof keepAlive>[0]): Promise<void> {
    const before = await endOf(sandbox)
    {
      await using heart = keepAlive(sandbox, options)
      await heart.beat()
      const first = await endOf(sandbox)
      expect(first - before).toBeGreaterThan(leaseMs - 120_000)
      // It extends again whenever less than a lease is left.
      await expect.poll(() => endOf(sandbox)).toBeGreaterThan(first)
      expect((await endOf(sandbox)) - Date.now()).toBeLessThan(leaseMs + 30_000)
    }
    expect(thrown).toEqual([])
    await sandbox.destroy()
  }

  it('counts as use of Daytona’s sandbox, which stops when idle', async () => {
    const apiUrl = `${daemon.daemon.fronts.daytona}/api`
    const provider = new DaytonaProvider({ apiKey: daemon.key, apiUrl, target: 'local' })
    const sandbox = await provider.create({ providerOptions: { autoStopInterval: 1 } })
    const begun = Date.now()
    const beats: boolean[] = []
    const heart = keepAlive(sandbox, { ...options, onBeat: ({ extended }) => beats.push(extended) })
    // It was given a minute after its last use.
    const end = async () => Date.parse((await session()).expires_at)
    await expect.poll(end).toBeGreaterThan(begun + 60_000)
    await expect.poll(() => beats.length).toBeGreaterThan(2)
    expect([new Set(beats), thrown]).toEqual([new Set([true]), []])
    await sandbox.stop()
    expect(await heart.ended).toMatchObject({ reason: 'stopped' })
    await expect(sandbox.refreshActivity()).rejects.toMatchObject({ code: 'not_running' })
    await sandbox.destroy()
  })
})
