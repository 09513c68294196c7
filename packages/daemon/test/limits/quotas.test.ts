import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { postgresMissing, startPostgres, type TestPostgres } from '../../../database/src/testing/postgres.ts'
import { type Answer, startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

/** Quotas apply to creates, forks, starts and wakes, also to concurrent ones. */
const missing = await postgresMissing()
let postgres: TestPostgres | undefined
beforeAll(async () => {
  if (!missing) postgres = await startPostgres()
})
afterAll(() => postgres?.stop())

const cleanUps: Array<() => unknown> = []
afterEach(async () => {
  while (cleanUps.length > 0) await cleanUps.pop()!()
})

describe.each([
  ['SQLite', undefined],
  [`Postgres${missing ? ` (skipped: ${missing})` : ''}`, missing],
])('%s', (kind, skipped) => {
  let count = 0
  async function begin(quotas: object, settings: Record<string, unknown> = {}): Promise<TestDaemon> {
    const provider = new MemoryProvider({ createOptions: ['resources', 'providerOptions', 'image'] })
    provider.command(
      () => true,
      async ({ stdout }) => void (await stdout.write('x')),
    )
    // About as long as copies of real sandboxes take.
    provider.fault({ on: 'fork', delayMs: 100, times: Number.POSITIVE_INFINITY })
    const database = kind === 'SQLite' ? {} : { db_url: await postgres!.database(`quotas${count++}`) }
    const daemon = await startTestDaemon({ quotas, ...database, ...settings }, { provider: provider })
    cleanUps.push(() => daemon.stop())
    return daemon
  }
  const statuses = (answers: Answer[]) => answers.map(({ status }) => status).sort()
  const running = async (daemon: TestDaemon) =>
    (await daemon.call('GET', '/v1/sessions?status=running')).body.sessions.length

  it.skipIf(skipped)('concurrent forks do not exceed the quota', async () => {
    const daemon = await begin({ sessions: 6 })
    const id = await daemon.session()
    const forks = await Promise.all(
      Array.from({ length: 8 }, () => daemon.call('POST', `/v1/sessions/${id}/fork`, { count: 1 })),
    )
    expect(statuses(forks).filter((status) => status === 429)).toHaveLength(3)
    expect(await running(daemon)).toBe(6)
    expect(await daemon.context.provider.list()).toHaveLength(6)
  })

  it.skipIf(skipped)('concurrent creates count processors, memory and disk', async () => {
    const daemon = await begin({ cpu: 2, mem_mb: 4096, disk_mb: 3000 })
    const body = { limits: { cpu: 0.5, memory_mb: 512, disk_mb: 1000 } }
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => daemon.call('POST', '/v1/sessions', body)),
    )
    expect(statuses(answers)).toEqual([201, 201, 201, 429, 429, 429, 429, 429])
  })

  it.skipIf(skipped)('a start, and a wake by use, need room for processors and memory', async () => {
    const daemon = await begin({ mem_mb: 1024 })
    const limits = { memory_mb: 512 }
    const ids: string[] = []
    for (let at = 0; at < 4; at += 1) {
      const id = await daemon.session({ limits, wake_on_use: true })
      expect((await daemon.call('POST', `/v1/sessions/${id}/stop`)).status).toBe(200)
      ids.push(id)
    }
    const starts = await Promise.all(
      ids.map((id, at) =>
        at % 2
          ? daemon.call('POST', `/v1/sessions/${id}/start`)
          : daemon.call('POST', `/v1/sessions/${id}/run`, { cmd: 'true' }),
      ),
    )
    expect(statuses(starts)).toEqual([200, 200, 429, 429])
    expect(starts.find(({ status }) => status === 429)!.body).toMatchObject({
      code: 'quota_exceeded',
      details: { quota: 'mem_mb', limit: 1024 },
    })
    expect(await running(daemon)).toBe(2)
  })

  it.skipIf(skipped)('a paused session counts as running, so that it can always resume', async () => {
    const daemon = await begin({ cpu: 1 })
    const id = await daemon.session({ limits: { cpu: 1 } })
    expect((await daemon.call('POST', `/v1/sessions/${id}/pause`)).status).toBe(200)
    expect((await daemon.call('POST', '/v1/sessions', { limits: { cpu: 1 } })).status).toBe(429)
    expect((await daemon.call('POST', `/v1/sessions/${id}/resume`)).status).toBe(200)
  })

  it.skipIf(skipped)('sessions of a snapshot count inherited limits', async () => {
    const daemon = await begin({ mem_mb: 1150 })
    const id = await daemon.session({ limits: { memory_mb: 600 } })
    const { body } = await daemon.call('POST', `/v1/sessions/${id}/snapshots`, {})
    expect((await daemon.call('POST', '/v1/sessions', { snapshot_id: body.id })).status).toBe(429)
    await daemon.call('POST', `/v1/sessions/${id}/stop`)
    expect((await daemon.call('POST', '/v1/sessions', { snapshot_id: body.id })).status).toBe(201)
  })

  it.skipIf(skipped)('a disk without a limit counts as one of the default size, or is refused', async () => {
    const counted = await begin({ disk_mb: 2500 }, { defaults: { disk_limit_mb: 1000 } })
    await counted.session()
    await counted.session()
    expect((await counted.call('POST', '/v1/sessions', {})).status).toBe(429)
    const without = await begin({ disk_mb: 2500 })
    const refused = await without.call('POST', '/v1/sessions', {})
    expect(refused.status).toBe(429)
    expect(refused.body.hint).toMatch(/limits\.disk_mb/)
    await without.session({ limits: { disk_mb: 2000 } })
  })
})
