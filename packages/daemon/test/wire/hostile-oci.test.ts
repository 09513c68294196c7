import { Agent, request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { isolationMissing } from '../../src/testing/isolator.ts'
import { fuzz } from './fuzz.ts'

const missing = await isolationMissing()

/**
 * The fuzz test of `hostile.test.ts` on real sandboxes. Set `SANDKASTEN_FUZZ_ROUNDS` for a long run, and
 * `SANDKASTEN_FUZZ_SEED` for other requests.
 */
describe.skipIf(missing)(`isolated sandboxes${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let daemon: TestDaemon
  const logged: string[] = []
  beforeAll(async () => {
    const note = (facts: object, message: string) =>
      void logged.push(
        `${message} ${JSON.stringify(facts, (_, value) => (value instanceof Error ? value.stack : value))}`,
      )
    const quiet = () => {}
    daemon = await startTestDaemon(
      { isolator: 'oci', quotas: { sessions: 5 }, max_body_mb: 1, defaults: { max_exec_timeout_ms: 2000 } },
      { log: { debug: quiet, info: quiet, warn: quiet, error: note } },
    )
  })
  afterAll(() => daemon?.stop())

  it('the fuzzed API never answers 500, never hangs, and still works', async () => {
    const rounds = Number(process.env.SANDKASTEN_FUZZ_ROUNDS ?? 2)
    const seed = Number(process.env.SANDKASTEN_FUZZ_SEED ?? 5)
    const seen = await fuzz(daemon, { seed, rounds, logged })
    expect(seen).toEqual(expect.arrayContaining([200, 201, 400, 404]))
    expect(logged).toEqual([])
    const { sessions } = (await daemon.call('GET', '/v1/sessions?status=running,paused,stopped,crashed')).body
    for (const { id } of sessions) await daemon.call('DELETE', `/v1/sessions/${id}`)
    const id = await daemon.session()
    expect((await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'echo yes' })).body.output).toBe(
      'yes\n',
    )
  }, 300_000)

  it('a file that changes its size while it is downloaded never spoils the connection', async () => {
    const id = await daemon.session()
    const evil = 'HTTP/1.1 200 OK\\r\\ncontent-length: 4\\r\\n\\r\\nevil'
    const cmd = `printf '${evil}' > /tmp/evil; head -c 4M /dev/zero > big; (while :; do cat /tmp/evil >> big; truncate -s 4M big; done) > /dev/null 2>&1 &`
    expect((await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd })).body.exit_code).toBe(0)
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const get = (path: string) =>
      new Promise<{ promised: number; came: number; text: string }>((resolve, reject) => {
        const headers = { authorization: `Bearer ${daemon.key}` }
        request(new URL(path, daemon.daemon.url), { agent, headers }, (answer) => {
          let came = 0
          let text = ''
          answer.on('data', (data: Buffer) => {
            came += data.length
            if (came < 10_000) text += data
          })
          const done = () => resolve({ promised: Number(answer.headers['content-length']), came, text })
          answer.on('end', done)
          answer.on('error', done)
        })
          .on('error', reject)
          .end()
      })
    let longer = 0
    for (let round = 0; round < 200; round += 1) {
      const file = await get(`/v1/sessions/${id}/files?path=big`)
      expect(file.came).toBeLessThanOrEqual(file.promised)
      if (file.promised > 4 * 2 ** 20) longer += 1
      expect((await get(`/v1/sessions/${id}`)).text).toContain(id)
    }
    // The file did change its size.
    expect(longer).toBeGreaterThan(0)
    agent.destroy()
    await daemon.call('DELETE', `/v1/sessions/${id}`)
  }, 60_000)
})
