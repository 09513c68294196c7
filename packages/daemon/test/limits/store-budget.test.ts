import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { postgresMissing, startPostgres, type TestPostgres } from '../../../database/src/testing/postgres.ts'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

/** The database stays within its budget and returns space, and a full disk does not stop the daemon. */
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

async function begin(settings: Record<string, unknown>): Promise<{ daemon: TestDaemon; base: string }> {
  const daemon = await startTestDaemon(settings)
  cleanUps.push(() => daemon.stop())
  return { daemon, base: `/v1/sessions/${await daemon.session()}` }
}

describe.each([
  ['SQLite', undefined],
  [`Postgres${missing ? ` (skipped: ${missing})` : ''}`, missing],
])('results on %s', (kind, skipped) => {
  it.skipIf(skipped)(
    'stay within the budget of the project; the oldest go first',
    async () => {
      const database = kind === 'SQLite' ? {} : { db_url: await postgres!.database('budget') }
      const { daemon, base } = await begin({
        ...database,
        keep_project_results_mb: 32,
        max_result_mb: 16,
        reaper_interval_seconds: 3600,
      })
      const run = (at: number) =>
        daemon.call('POST', `${base}/run`, {
          cmd: 'sh',
          args: ['-c', 'head -c 6000000 /dev/zero | tr "\\0" x'],
          max_output_bytes: 8_000_000,
          exec_id: `e${at}`,
        })
      for (let at = 0; at < 10; at += 1) expect((await run(at)).body.stdout).toHaveLength(6_000_000)
      const { store } = daemon.context
      await expect
        .poll(async () => [...(await store.execs.keptBytes()).values()][0])
        .toBeLessThan(32 * 2 ** 20)
      expect((await daemon.call('GET', `${base}/execs/e0`)).status).toBe(404)
      expect((await daemon.call('GET', `${base}/execs/e9`)).body.result.stdout).toHaveLength(6_000_000)
      const metrics = await (await daemon.fetch('/metrics')).text()
      expect(Number(/sandkasten_store_bytes\{kind="results"\} (\d+)/.exec(metrics)![1])).toBeLessThan(
        32 * 2 ** 20,
      )
      if (kind !== 'SQLite') return
      await daemon.daemon.sessions.reaper.run()
      expect(await store.size()).toBeLessThan(48 * 2 ** 20)
      const { size } = await stat(path.join(daemon.folder, 'sandkasten.db-wal'))
      expect(size).toBeLessThan(48 * 2 ** 20)
      // Removed results return their space to the file system. Without new results, nothing reuses that space.
      Object.assign(daemon.context.config, { keep_project_results_mb: 1 })
      await daemon.daemon.sessions.reaper.run()
      expect(await store.size()).toBeLessThan(8 * 2 ** 20)
    },
    60_000,
  )
})

const mayMount = process.platform === 'linux' && process.getuid?.() === 0
describe.skipIf(!mayMount)(`a full disk${mayMount ? '' : ' (skipped: mounting needs root)'}`, () => {
  it('does not stop reads and ends of sessions', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'sk-full-'))
    cleanUps.push(() => rm(folder, { recursive: true, force: true }))
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=6m', 'sk-full', folder])
    cleanUps.push(() => execFileSync('umount', [folder]))
    const { daemon, base } = await begin({ db_path: path.join(folder, 'a.db') })
    const others = await Promise.all(Array.from({ length: 20 }, () => daemon.session()))
    await daemon.call('POST', `${base}/run`, { cmd: 'echo', args: ['kept'], exec_id: 'e' })
    const filler = path.join(folder, 'filler')
    await writeFile(filler, Buffer.alloc(8_000_000)).catch(() => {})
    // Commands with an id need a row. They use the remaining space in the file, and then are refused.
    let refused = 0
    for (let at = 0; at < 200 && refused < 3; at += 1) {
      const { status } = await daemon.call('POST', `${base}/run`, {
        cmd: 'true',
        exec_id: `more${at}`,
        detach: true,
      })
      if (status === 507) refused += 1
    }
    expect(refused).toBe(3)
    expect((await daemon.call('GET', '/v1/sessions?limit=100')).body.sessions).toHaveLength(21)
    expect((await daemon.call('GET', `${base}/execs/e`)).body.result.stdout).toBe('kept\n')
    expect((await daemon.call('POST', `${base}/run`, { cmd: 'echo', args: ['x'] })).status).toBe(200)
    for (const id of others) {
      const { status, body } = await daemon.call('DELETE', `/v1/sessions/${id}`)
      expect({ status, body }).toMatchObject({ status: 200, body: { destroyed: true } })
      expect((await daemon.call('GET', `/v1/sessions/${id}`)).body.status).toBe('destroyed')
    }
    // Deleted rows have left some space in the file.
    let created = 201
    for (let count = 0; count < 100 && created === 201; count += 1)
      created = (await daemon.call('POST', '/v1/sessions', {})).status
    expect(created).toBe(507)
    await rm(filler)
    await expect
      .poll(async () => (await daemon.call('POST', '/v1/sessions', {})).status, { timeout: 5000 })
      .toBe(201)
  }, 60_000)
})
