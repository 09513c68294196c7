import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

/** While SQLite cannot be written, the daemon reports it, and no acknowledged change is lost. */
let folder: string
let daemon: TestDaemon
const cleanUps: Array<() => unknown> = []
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sk-trouble-'))
  cleanUps.push(() => rm(folder, { recursive: true, force: true }))
})
afterEach(async () => {
  while (cleanUps.length > 0) await cleanUps.pop()!()
})

async function begin(db_path: string): Promise<{ id: string; base: string }> {
  daemon = await startTestDaemon({ db_path })
  cleanUps.push(() => daemon.stop())
  const id = await daemon.session({ name: 'before' })
  const base = `/v1/sessions/${id}`
  const script = 'while [ ! -e go ]; do sleep 0.05; done; echo out'
  const run = { cmd: 'sh', args: ['-c', script], exec_id: 'e', detach: true }
  expect((await daemon.call('POST', `${base}/run`, run)).status).toBe(202)
  return { id, base }
}

/** Checks that reads work, and that writes fail with the expected error. */
async function inTrouble(base: string, expected: { status: number; code: string }): Promise<void> {
  // With a name the row is written before the sandbox is created, without a name at the same time.
  const wanted = Array.from({ length: 8 }, (_, at) => (at % 2 ? { name: 'in trouble' } : {}))
  const answers = await Promise.all(wanted.map((body) => daemon.call('POST', '/v1/sessions', body)))
  for (const { status, body, headers } of answers) {
    expect({ status, code: body.code }).toEqual(expected)
    expect(body.hint).not.toBe('')
    expect(headers.get('retry-after')).toBe('1')
  }
  expect(await daemon.context.provider.list()).toHaveLength(1)
  expect((await daemon.call('GET', base)).body.status).toBe('running')
  expect((await daemon.call('POST', `${base}/run`, { cmd: 'echo', args: ['works'] })).body.stdout).toBe(
    'works\n',
  )
  // The command ends while its result cannot be written.
  await daemon.call('POST', `${base}/fs/write`, { path: 'go', content: '' })
}

/** Checks that acknowledged changes exist, that refused ones do not, and that writes work again. */
async function afterwards(base: string): Promise<void> {
  await expect
    .poll(async () => (await daemon.call('GET', `${base}/execs/e?wait_ms=5000`)).body)
    .toMatchObject({ status: 'done', result: { exit_code: 0, stdout: 'out\n' } })
  const next = await daemon.session({ name: 'in trouble' })
  await daemon.context.events.flush()
  await daemon.restart()
  const { sessions } = (await daemon.call('GET', '/v1/sessions?status=running,creating')).body
  expect(sessions.map(({ name }: { name: string }) => name)).toEqual(['in trouble', 'before'])
  expect(await daemon.context.provider.list()).toHaveLength(2)
  const { events } = (await daemon.call('GET', `/v1/events?limit=100&after=0&session_id=${next}`)).body
  expect(events.map(({ type }: { type: string }) => type)).toEqual(['session.running'])
}

describe('another program locks the database', () => {
  it('beyond the timeout: 503, and at once for later requests', async () => {
    const db = path.join(folder, 'a.db')
    const { base } = await begin(db)
    const other = new DatabaseSync(db)
    other.exec('begin immediate')
    try {
      await inTrouble(base, { status: 503, code: 'unavailable' })
      const startedAt = performance.now()
      expect((await daemon.call('POST', '/v1/sessions', {})).status).toBe(503)
      // Not a measurement: a request that waits for its own timeout takes five seconds.
      expect(performance.now() - startedAt).toBeLessThan(4_500)
    } finally {
      other.exec('rollback')
      other.close()
    }
    await expect.poll(async () => (await daemon.call('GET', '/readyz')).status).toBe(200)
    await afterwards(base)
  })
})

const mayMount = process.platform === 'linux' && process.getuid?.() === 0
describe.skipIf(!mayMount)(
  `the database’s disk is full${mayMount ? '' : ' (skipped: mounting needs root)'}`,
  () => {
    it('is reported, and ends when there is room again', async () => {
      const disk = path.join(folder, 'disk')
      execFileSync('mkdir', [disk])
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=3m', 'sk-trouble', disk])
      cleanUps.push(() => execFileSync('umount', [disk]))
      const { base } = await begin(path.join(disk, 'a.db'))
      const filler = path.join(disk, 'filler')
      await writeFile(filler, Buffer.alloc(4_000_000)).catch(() => {})
      await inTrouble(base, { status: 507, code: 'disk_full' })
      await rm(filler)
      await afterwards(base)
    })
  },
)
