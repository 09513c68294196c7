import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { LocalProvider } from '@sandkasten/sdk/local'
import { describe, expect, it, onTestFinished } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { openProcess } from './testing/process.ts'
import type { WorkerTask } from './testing/worker.ts'
import { hasWorker } from './worker-sign.ts'

describeOnEachDatabase('work of several processes', (newDatabase) => {
  const day = 24 * 3_600_000

  async function setUp() {
    const folder = await mkdtemp(path.join(tmpdir(), 'sk-work-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const root = path.join(folder, 'sandboxes')
    const location = await newDatabase()
    const witness = path.join(folder, 'witness')
    const local = new LocalProvider({ root, acceptNoIsolation: true })
    const process = await openProcess(location, [local])
    onTestFinished(async () => {
      for (const { id } of await local.list()) await local.destroy(id)
      await process.close()
    })
    const reports: Array<{ sandbox: string; action: string }> = []
    const failures: string[] = []
    onTestFinished(() => expect(failures).toEqual([]))
    const start = async (options: Partial<WorkerTask> = {}, env: Record<string, string> = {}) => {
      const child = startChild(
        'worker.ts',
        [JSON.stringify({ database: location, root, witness, ...options })],
        env,
      )
      child.on('message', (message: { done?: typeof reports; failed?: string[] }) => {
        reports.push(...(message.done ?? []))
        failures.push(...(message.failed ?? []))
      })
      expect((await once(child, 'message'))[0]).toBe('ready')
      return child
    }
    const calls = () => (existsSync(witness) ? readFileSync(witness, 'utf8').trim().split('\n') : [])
    return { folder, location, local, process, start, reports, calls }
  }

  function startChild(script: string, args: string[], env: Record<string, string> = {}): ChildProcess {
    const child = fork(path.join(import.meta.dirname, 'testing', script), args, {
      execArgv: ['--conditions=sandkasten-source'],
      env: { ...process.env, ...env },
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    return child
  }

  async function kill(child: ChildProcess): Promise<void> {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }

  describe('several processes', () => {
    it('do each due action exactly once', async () => {
      const { process, start, reports, calls } = await setUp()
      const workers = await Promise.all([start(), start(), start()])
      const names = Array.from({ length: 15 }, (_, index) => `demo${index}`)
      for (const name of names) await process.sandboxes.create({ name, idleStopMs: 500 })
      await expect.poll(async () => (await process.sandboxes.list({ status: 'stopped' })).length).toBe(15)
      const ids = await Promise.all(names.map(async (name) => (await process.row(name)).provider_sandbox_id))
      await expect.poll(() => reports.map(({ sandbox }) => sandbox).sort()).toEqual(names.sort())
      expect(calls().sort()).toEqual(ids.map((id) => `stop ${id}`).sort())
      for (const worker of workers) {
        worker.send('stop')
        expect(await once(worker, 'exit')).toEqual([0, null])
      }
    })

    it('finish what a process began that was killed', async () => {
      const { process, start, reports } = await setUp()
      await process.sandboxes.create({ name: 'demo', idleStopMs: 1 })
      const first = startChildOf(await start({ hangs: 'stop' }))
      await first.hangs
      expect(await process.row('demo')).toMatchObject({ operation: 'stop', status: 'running' })
      expect(await hasWorker(process.context)).toBe(true)
      await kill(first.child)
      expect(await hasWorker(process.context)).toBe(false)
      await start()
      await expect.poll(() => process.row('demo')).toMatchObject({ operation: null, status: 'stopped' })
      await expect.poll(() => reports.length).toBe(1)
    })

    it('stop a sandbox when the process is killed that held it', async () => {
      const { process, start, location, calls } = await setUp()
      await process.sandboxes.create({ name: 'demo', idleStopMs: 200 })
      const { id } = await process.row('demo')
      const holder = startChild('holder.ts', [JSON.stringify(location), id])
      expect((await once(holder, 'message'))[0]).toBe('held')
      await start()
      await new Promise((resolve) => setTimeout(resolve, 1_500))
      expect(calls()).toEqual([])
      expect((await process.sandboxes.get('demo')).uses).toMatchObject([{ pid: holder.pid }])
      await expect(process.sandboxes.destroy('demo')).rejects.toMatchObject({ code: 'conflict' })
      await kill(holder)
      await expect.poll(async () => (await process.row('demo')).status).toBe('stopped')
      expect(calls()).toHaveLength(1)
    })
  })

  function startChildOf(child: ChildProcess) {
    const hangs = once(child, 'message')
    return { child, hangs }
  }

  const faketime = [
    ...globSync('/usr/lib/*/faketime/libfaketime.so.1'),
    ...globSync(
      path.join(
        import.meta.dirname,
        '../../../../node_modules/.cache/sandkasten-tools/usr/lib/*/faketime/libfaketime.so.1',
      ),
    ),
  ][0]

  describe.skipIf(!faketime)(
    `a clock that is set while a process works${faketime ? '' : ' (skipped: no libfaketime)'}`,
    () => {
      it.each([
        ['ahead', 1],
        ['back', -1],
      ])('by a day %s stops nothing that is in use, and work goes on', async (_, days) => {
        const { process, start, folder, calls } = await setUp()
        const clock = path.join(folder, 'clock')
        writeFileSync(clock, '+0')
        const worker = await start(
          {},
          {
            LD_PRELOAD: faketime!,
            FAKETIME_TIMESTAMP_FILE: clock,
            FAKETIME_NO_CACHE: '1',
            FAKETIME_DONT_FAKE_MONOTONIC: '1',
          },
        )
        await process.sandboxes.create({ name: 'used', idleStopMs: 1_000 })
        const hold = await process.sandboxes.hold('used')
        await process.sandboxes.create({ name: 'fresh', idleStopMs: day / 2 })
        writeFileSync(clock, days > 0 ? '+1d' : '-1d')
        worker.send('time')
        const [time] = (await once(worker, 'message')) as [{ wall: number; now: number }]
        expect(Math.abs(time.wall - Date.now() - days * day)).toBeLessThan(60_000)
        expect(Math.abs(time.now - Date.now())).toBeLessThan(60_000)
        await process.sandboxes.create({ name: 'idle', idleStopMs: 300 })
        await expect.poll(async () => (await process.row('idle')).status).toBe('stopped')
        await new Promise((resolve) => setTimeout(resolve, 1_500))
        expect(calls()).toEqual([`stop ${(await process.row('idle')).provider_sandbox_id}`])
        // A process that starts now has only the wrong clock: what is in use is safe from it, too.
        await kill(worker)
        await start(
          {},
          { LD_PRELOAD: faketime!, FAKETIME: days > 0 ? '+1d' : '-1d', FAKETIME_DONT_FAKE_MONOTONIC: '1' },
        )
        await new Promise((resolve) => setTimeout(resolve, 1_500))
        expect(calls().filter((call) => call.includes(hold.handle.sandboxId))).toEqual([])
        expect(await hold.handle.status()).toBe('running')
        await hold.release()
        await expect.poll(async () => (await process.row('used')).status).toBe('stopped')
      })
    },
  )
})
