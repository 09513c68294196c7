import { VercelProvider } from '@sandkasten/sdk/vercel'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { rows } from './surroundings.ts'

const minute = 60_000
const missing = await isolationMissing()

/** The provider is the real one for Vercel, on a daemon’s front for the vendor's SDK. */
describe.skipIf(missing)(
  `the heartbeat of the Sandbox SDK seed${missing ? ` (skipped: ${missing})` : ''}`,
  () => {
    let daemon: TestDaemon
    beforeAll(async () => {
      const fronts = { vercel: { listen: '127.0.0.1:0' } }
      daemon = await startTestDaemon({ isolator: 'oci', preview_listen: 'off', fronts })
    }, 60_000)
    afterAll(() => daemon?.stop())

    it('extends the lifetime by five minutes every three, and ends with a snapshot', async () => {
      const baseUrl = daemon.daemon.fronts.vercel!
      const account = { token: daemon.key, teamId: 'team', projectId: 'project' }
      const provider = new VercelProvider({ ...account, baseUrl })
      const handle = await provider.create({ lifetimeMs: minute })
      vi.doMock('./snippets/full-flow.ts', () => ({ handle, provider }))
      // The snippet clears its timer in the same tick, so the test calls what the timer would have called.
      const beats: Array<() => unknown> = []
      const real = setInterval
      vi.stubGlobal('setInterval', (beat: () => unknown, ms: number) => {
        if (ms === 3 * minute) beats.push(beat)
        return real(beat, ms)
      })
      try {
        const before = (await handle.info()).expiresAt!.getTime()
        await import('./snippets/heartbeat.ts')
        expect(beats).toHaveLength(1)
        expect(rows).toEqual([
          { where: { id: 1 }, data: { status: 'stopped', snapshot_id: expect.any(String) } },
        ])
        const asked = Date.now()
        await beats[0]!()
        const after = (await handle.info()).expiresAt!.getTime()
        expect(before).toBeLessThan(asked + 2 * minute)
        expect(after).toBeGreaterThanOrEqual(asked + 5 * minute - 2000)
      } finally {
        vi.unstubAllGlobals()
        vi.doUnmock('./snippets/full-flow.ts')
        await handle.destroy()
      }
    })
  },
)
