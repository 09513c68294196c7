import { afterAll, beforeAll, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { isolationMissing } from '../../src/testing/isolator.ts'

const reason = await isolationMissing()
const here = `node${process.versions.node.split('.')[0]}`

let daemon: TestDaemon
beforeAll(async () => {
  daemon = await startTestDaemon({ default_image: 'mine', images: { mine: 'host' } })
})
afterAll(() => daemon?.stop())

it('a session of a runtime has an allowed image with that program, under the image’s name here', async () => {
  const { status, body } = await daemon.call('POST', '/v1/sessions', { runtime: here })
  expect([status, body.image]).toEqual([201, 'mine'])
  const run = await daemon.call('POST', `/v1/sessions/${body.id}/run`, { cmd: 'node', args: ['--version'] })
  expect(run.body.stdout).toMatch(`v${here.slice(4)}.`)
})

it('refuses a runtime that is not there, and one beside an image or a snapshot, and creates nothing', async () => {
  const before = (await daemon.call('GET', '/v1/sessions')).body.sessions.length
  const missing = await daemon.call('POST', '/v1/sessions', { runtime: 'node4' })
  expect(missing.body).toMatchObject({ code: 'unsupported', details: { option: 'runtime' } })
  expect(missing.body.details.available).toContain(here)
  for (const other of [{ image: 'mine' }, { snapshot_id: 'x' }]) {
    const both = await daemon.call('POST', '/v1/sessions', { runtime: here, ...other })
    expect([both.status, both.body.code]).toEqual([400, 'invalid_argument'])
  }
  expect((await daemon.call('POST', '/v1/sessions', { runtime: 7 })).status).toBe(400)
  expect((await daemon.call('GET', '/v1/sessions')).body.sessions).toHaveLength(before)
})

it.skipIf(reason)('does not choose an image that is not allowed', async () => {
  const strict = await startTestDaemon({
    isolator: 'oci',
    default_image: 'nothing',
    images: { nothing: '/nonexistent' },
  })
  try {
    const { body } = await strict.call('POST', '/v1/sessions', { runtime: here })
    expect(body).toMatchObject({ code: 'unsupported', details: { available: [] } })
  } finally {
    await strict.stop()
  }
})
