import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { instanceLabel, Pool, poolLabel, sessionLabel } from '../../src/sessions/index.ts'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { isolationMissing } from '../../src/testing/isolator.ts'

const noIsolation = await isolationMissing()

for (const [isolator, missing] of [
  ['process', undefined],
  ['oci', noIsolation],
] as const)
  describe.skipIf(missing)(`a pool (${isolator}${missing ? `; skipped: ${missing}` : ''})`, () => {
    let daemon: TestDaemon
    const context = () => daemon.context
    const waiting = async (keeper = context().pool.keeper) =>
      (await context().provider.list({ labels: { [poolLabel]: keeper } })).map(({ sandboxId }) => sandboxId)
    const full = () => expect.poll(async () => (await waiting()).length, { timeout: 30_000 }).toBe(3)
    const sandboxOf = async (id: string) => (await context().store.sessions.get(id))!.sandbox_id!
    beforeAll(async () => {
      daemon = await startTestDaemon({ isolator, pool: [{ size: 3 }], pool_min_available_mb: 0 })
    })
    afterAll(() => daemon?.stop())

    it('hands over sandboxes like new ones, and refills', async () => {
      await full()
      const before = await waiting()
      const startedAt = Date.now()
      const id = await daemon.session({ env: { GIVEN: 'to this one' } })
      const sandbox = await sandboxOf(id)
      expect(before).toContain(sandbox)
      const info = await (await context().provider.get(sandbox, { resume: false })).info()
      expect(info.labels).toEqual({ [sessionLabel]: id, [instanceLabel]: daemon.daemon.instanceId })
      expect(info.createdAt?.getTime()).toBeGreaterThanOrEqual(startedAt)
      const shell = await daemon.call('POST', `/v1/sessions/${id}/exec`, {
        cmd: 'echo $GIVEN; ls -A | wc -l',
      })
      expect(shell.body.output).toBe('to this one\n0\n')
      const run = { cmd: 'sh', args: ['-c', 'tr "\\0" "\\n" < /proc/1/environ | grep -c GIVEN; echo $GIVEN'] }
      expect((await daemon.call('POST', `/v1/sessions/${id}/run`, run)).body.stdout).toBe('0\nto this one\n')
      await full()
      expect(await waiting()).not.toContain(sandbox)
      await daemon.call('DELETE', `/v1/sessions/${id}`)
    })

    it('never hands a sandbox over twice, nor a dead one', async () => {
      await full()
      const [dead] = await waiting()
      await context().provider.destroy(dead!)
      const ids = await Promise.all(Array.from({ length: 6 }, () => daemon.session()))
      const sandboxes = await Promise.all(ids.map(sandboxOf))
      expect(new Set(sandboxes).size).toBe(6)
      expect(sandboxes).not.toContain(dead)
      for (const id of ids)
        expect((await daemon.call('POST', `/v1/sessions/${id}/run`, { cmd: 'true' })).body.exit_code).toBe(0)
      for (const id of ids) await daemon.call('DELETE', `/v1/sessions/${id}`)
    })

    it('is ignored by reconciliation, which removes the pool of an earlier daemon', async () => {
      await full()
      const mine = await waiting()
      const other = await context().provider.create({
        labels: { [poolLabel]: 'earlier', [instanceLabel]: daemon.daemon.instanceId },
      })
      await daemon.daemon.sessions.reconciler.run()
      expect(await waiting()).toEqual(expect.arrayContaining(mine))
      expect(await waiting('earlier')).toEqual([])
      expect(await other.destroy()).toBe(false)
    })

    it('is emptied when memory is short', async () => {
      let availableMb = 1000
      const config = { ...context().config, pool_min_available_mb: 500 }
      const pool = new Pool({ ...context(), config }, () => availableMb)
      await pool.tend()
      expect(await waiting(pool.keeper)).toHaveLength(3)
      availableMb = 400
      await pool.tend()
      expect(await waiting(pool.keeper)).toEqual([])
      await pool.close()
    })

    it('does not outlive a stopped daemon', async () => {
      await full()
      const { keeper } = context().pool
      await daemon.restart()
      expect(await waiting(keeper)).toEqual([])
      await full()
    })
  })

it.skipIf(noIsolation)(
  `has sandboxes for E2B’s front, too${noIsolation ? ` (skipped: ${noIsolation})` : ''}`,
  async () => {
    const daemon = await startTestDaemon({
      isolator: 'oci',
      pool: [{ size: 1, account: 'user' }],
      pool_min_available_mb: 0,
      fronts: { e2b: { listen: '127.0.0.1:0' } },
    })
    try {
      const { provider, pool, store } = daemon.context
      const ready = async () =>
        /^sandkasten_pool_ready\{.*account="user".*\} (\d)/m.exec(
          await (await daemon.fetch('/metrics')).text(),
        )?.[1]
      await expect.poll(ready, { timeout: 30_000 }).toBe('1')
      const [waiting] = await provider.list({ labels: { [poolLabel]: pool.keeper } })
      const made = await fetch(`${daemon.daemon.fronts.e2b}/sandboxes`, {
        method: 'POST',
        headers: { 'x-api-key': daemon.key, 'content-type': 'application/json' },
        body: '{}',
      })
      expect(made.status).toBe(201)
      const [session] = (await daemon.call('GET', '/v1/sessions')).body.sessions
      expect((await store.sessions.get(session.id))!.sandbox_id).toBe(waiting!.sandboxId)
      const { body } = await daemon.call('POST', `/v1/sessions/${session.id}/run`, {
        cmd: 'sh',
        args: ['-c', 'id -un; pwd'],
      })
      expect(body.stdout).toBe('user\n/home/user\n')
      await daemon.call('DELETE', `/v1/sessions/${session.id}`)
    } finally {
      await daemon.stop()
    }
  },
  60_000,
)
