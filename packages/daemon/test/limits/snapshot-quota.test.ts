import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

let daemon: TestDaemon
beforeAll(async () => {
  daemon = await startTestDaemon({ quotas: { snapshots: 3 } })
})
afterAll(() => daemon?.stop())

const snapshots = async () => (await daemon.call('GET', '/v1/snapshots')).body.snapshots as { id: string }[]

describe('the quota of snapshots', () => {
  it('holds for parallel requests, and deleting one makes room', async () => {
    const id = await daemon.session()
    const make = () => daemon.call('POST', `/v1/sessions/${id}/snapshots`, {})
    const answers = await Promise.all(Array.from({ length: 8 }, make))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(3)
    const refused = answers.filter(({ status }) => status !== 201)
    for (const { body } of refused)
      expect(body).toMatchObject({ code: 'quota_exceeded', details: { quota: 'snapshots', limit: 3 } })
    expect(await snapshots()).toHaveLength(3)
    expect((await make()).body.hint).toContain('quotas.snapshots')
    await daemon.call('DELETE', `/v1/snapshots/${(await snapshots())[0]!.id}`)
    expect((await make()).status).toBe(201)
  })

  it('does not keep an idle session running: it stops without a snapshot', async () => {
    const id = await daemon.session({ ttl_seconds: 1, on_idle: 'snapshot-and-stop' })
    await expect
      .poll(async () => {
        await daemon.daemon.sessions.reaper.run()
        return (await daemon.call('GET', `/v1/sessions/${id}`)).body.status
      })
      .toBe('stopped')
    expect(await snapshots()).toHaveLength(3)
  })

  it('is 100 snapshots and 100 GiB by default', async () => {
    const other = await startTestDaemon()
    try {
      const id = await other.session()
      const { store } = other.context
      const { body } = await other.call('POST', `/v1/sessions/${id}/snapshots`, {})
      const row = (await store.snapshots.get((await store.keys.projects())[0]!.id, body.id))!
      for (let index = 1; index < 100; index++)
        await store.snapshots.insert({ ...row, id: `s${index}`, provider_id: `p${index}`, name: null })
      const refused = await other.call('POST', `/v1/sessions/${id}/snapshots`, {})
      expect(refused.body).toMatchObject({
        code: 'quota_exceeded',
        details: { quota: 'snapshots', limit: 100 },
      })
      for (let index = 1; index < 100; index++) await store.snapshots.delete(row.project_id, `s${index}`)
      await store.snapshots.insert({
        ...row,
        id: 'large',
        provider_id: 'large',
        size_bytes: 102_400 * 1024 * 1024,
      })
      const full = await other.call('POST', `/v1/sessions/${id}/snapshots`, {})
      expect(full.body).toMatchObject({ code: 'quota_exceeded', details: { quota: 'snapshot_mb' } })
    } finally {
      await other.stop()
    }
  })
})
