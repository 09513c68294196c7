import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { isolationMissing } from '../../src/testing/isolator.ts'

const reason = await isolationMissing()

describe('without allow_root', () => {
  it('a session with the user root is refused, and the hint names the setting', async () => {
    const daemon = await startTestDaemon()
    try {
      const { status, body } = await daemon.call('POST', '/v1/sessions', { user: 'root' })
      expect([status, body.code]).toEqual([403, 'forbidden'])
      expect(body.hint).toContain('allow_root')
      expect((await daemon.call('POST', '/v1/sessions', { user: 'admin' })).status).toBe(400)
    } finally {
      await daemon.stop()
    }
  })
})

describe('without isolation', () => {
  it('the user root is unsupported, whatever the setting', async () => {
    const daemon = await startTestDaemon({ allow_root: true })
    try {
      expect((await daemon.call('POST', '/v1/sessions', { user: 'root' })).body.code).toBe('unsupported')
    } finally {
      await daemon.stop()
    }
  })
})

describe.skipIf(reason)(`with allow_root${reason ? ` (skipped: ${reason})` : ''}`, () => {
  let daemon: TestDaemon
  beforeAll(async () => {
    daemon = await startTestDaemon({ isolator: 'oci', allow_root: true, pool: [{ image: 'host', size: 1 }] })
  }, 120_000)
  afterAll(() => daemon?.stop(), 60_000)

  const output = async (id: string, cmd: string) =>
    (await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd })).body.output.trim()

  it('commands and files are root’s, the session says so, and a snapshot keeps it', async () => {
    const { status, body } = await daemon.call('POST', '/v1/sessions', { user: 'root' })
    expect(status).toBe(201)
    expect(body).toMatchObject({ user: 'root', writable_paths: ['/'] })
    expect(await output(body.id, 'id -u; touch /usr/made && ls -n /usr/made | cut -d" " -f3')).toMatch(
      /^0\s+0$/,
    )
    const saved = await daemon.call('POST', `/v1/sessions/${body.id}/snapshots`, {})
    expect(saved.status).toBe(201)
    const copy = await daemon.call('POST', '/v1/sessions', { snapshot_id: saved.body.id })
    expect(copy.body.user).toBe('root')
    expect(await output(copy.body.id, 'id -u; ls /usr/made')).toMatch(/^0\s+\/usr\/made$/)
    const { sessions } = (await daemon.call('POST', `/v1/sessions/${body.id}/fork`, {})).body
    expect(sessions[0]).toMatchObject({ user: 'root', writable_paths: ['/'] })
    expect(await output(sessions[0].id, 'id -u')).toBe('0')
  }, 120_000)

  it('other sessions, and those of the pool, keep their ordinary user', async () => {
    const { body } = await daemon.call('POST', '/v1/sessions', {})
    expect(body).toMatchObject({ user: null, writable_paths: expect.arrayContaining(['/workspace', '/tmp']) })
    expect(await output(body.id, 'id -u')).toBe('1000')
    const denied = await daemon.call('POST', `/v1/sessions/${body.id}/fs/write`, {
      path: '/opt/x',
      content: 'x',
    })
    expect(denied.body).toMatchObject({
      code: 'permission_denied',
      hint: expect.stringContaining('"user": "root"'),
      hints: { cli: expect.stringContaining('--user root') },
    })
  })

  it('/tmp is kept by a stop, or empty if the session asks for that', async () => {
    for (const [tmp, expected] of [
      [undefined, 'kept'],
      ['memory', 'empty'],
    ] as const) {
      const { body } = await daemon.call('POST', '/v1/sessions', { tmp })
      await output(body.id, 'echo x > /tmp/file')
      await daemon.call('POST', `/v1/sessions/${body.id}/stop`)
      await daemon.call('POST', `/v1/sessions/${body.id}/start`)
      expect(await output(body.id, '[ -e /tmp/file ] && echo kept || echo empty')).toBe(expected)
    }
  })
})
