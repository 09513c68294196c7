import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../src/testing/isolator.ts'
import { spawnDaemon } from '../../src/testing/spawn-daemon.ts'
import { asker, readCounter, Told, work } from './kill-load.ts'
import { traces, verify } from './kill-verify.ts'

/** How often the daemon is killed; `SANDKASTEN_KILLS=300` for a long run. */
const kills = Number(process.env.SANDKASTEN_KILLS ?? 15)
const key = 'sk-test-0123456789abcdef'
const missing = await isolationMissing()

/**
 * Clients perform random actions in sessions: commands, shells, jobs, files, snapshots, forks, stops, pauses, ends. The
 * daemon is killed at a random time and started again. Then all acknowledged work must exist, and work without a
 * response must be complete or absent.
 */
describe.skipIf(missing)(`a daemon that is killed${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let folder: string
  let config: Record<string, unknown>
  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'sk-kill-'))
    config = { listen: '127.0.0.1:0', data_dir: folder, isolator: 'oci', api_key: key, log_level: 'silent' }
  })
  // Remove all sandboxes, also after a failure.
  afterAll(async () => {
    const last = await spawnDaemon(config)
    const ask = asker(last.url, key)
    for (const { id } of (await ask('GET', '/v1/sessions?limit=1000')).sessions)
      await ask('DELETE', `/v1/sessions/${id}`)
    await last.end('SIGTERM')
    await rm(folder, { recursive: true, force: true })
  })

  it(
    `loses nothing that it acknowledged and leaves nothing that it did not, ${kills} times`,
    async () => {
      const told = new Told()
      for (let round = 0; round < kills; round += 1) {
        // Every third daemon has a pool, whose sandboxes have no session and must be removed too.
        const daemon = await spawnDaemon(round % 3 === 2 ? { ...config, pool: [{ size: 2 }] } : config)
        try {
          const place = { ask: asker(daemon.url, key), url: daemon.url, key, told, folder }
          if (round % 3 !== 2) await verify(place)
          const working = Promise.all(Array.from({ length: 4 }, () => work(place)))
          // Kill at a random time, after at least one response.
          const target = told.answers + 1 + Math.floor(Math.random() * 40)
          while (told.answers < target) await Promise.race([pause(Math.random() * 20), working])
          await pause(Math.random() * 100)
          await daemon.end('SIGKILL')
          await working
        } finally {
          await daemon.end('SIGKILL')
        }
      }
      await endWell(told)
    },
    60_000 + kills * 10_000,
  )

  /** Verifies once more, ends all sessions, and checks that nothing is left on the machine. */
  async function endWell(told: Told): Promise<void> {
    const last = await spawnDaemon(config)
    try {
      const ask = asker(last.url, key)
      await verify({ ask, url: last.url, key, told, folder })
      for (const session of told.sessions.values()) {
        if (!session.counter) continue
        await ask('POST', `/v1/sessions/${session.id}/fs/write`, { path: '/workspace/enough', content: '' })
        await readCounter(session, last.url, key, { toEnd: true })
        const lines = session.counter.text.trimEnd().split('\n')
        expect(lines.pop()).toBe('end')
        expect(lines).toEqual(lines.map((_, n) => `t${n}`))
      }
      for (const id of told.sessions.keys()) await ask('DELETE', `/v1/sessions/${id}`)
      for (const id of told.snapshots.keys()) await ask('DELETE', `/v1/snapshots/${id}`)
    } finally {
      await last.end('SIGTERM')
    }
    await expect.poll(() => traces(folder)).toEqual([])
  }
})

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
