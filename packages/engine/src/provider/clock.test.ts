import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { readRecord, writeRecord } from '@sandkasten/sdk/internal'
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { reasonToSkip } from '../isolators/oci/testing/bench.ts'
import { EngineProvider } from './engine-provider.ts'
import { runnersOf } from './test-helper.ts'

/** The clock jumps forwards or backwards while sandboxes run, or between two processes. Only this process sees it. */
const skipped = await reasonToSkip()
const root = mkdtempSync(path.join(tmpdir(), 'sandkasten-clock-'))
const provider = new EngineProvider({ isolator: 'oci', root })
const DAY = 24 * 60 * 60 * 1000

const setClock = (ms: number) => {
  vi.useFakeTimers({ toFake: ['Date'] })
  vi.setSystemTime(Date.now() + ms)
}

describe('a clock that jumps', () => {
  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
  })
  afterEach(async () => {
    vi.useRealTimers()
    for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
  })
  afterAll(async () => {
    await provider.close()
    rmSync(root, { recursive: true, force: true })
  })

  it('forwards: a sandbox ends at its lifetime and keeps its disk; one without a lifetime keeps running', async () => {
    const short = await provider.create({ name: 'short', lifetimeMs: DAY / 2 })
    const endless = await provider.create()
    await short.runCommand({ cmd: 'sh', args: ['-c', 'echo kept > kept'] })
    setClock(DAY)
    await expect(short.runCommand({ cmd: 'true' })).rejects.toMatchObject({
      code: 'not_running',
      hint: expect.stringContaining('start()'),
    })
    expect(runnersOf(short.sandboxId)).toEqual([])
    expect((await short.info()).rawStatus).toBeUndefined()
    expect((await endless.runCommand({ cmd: 'echo', args: ['on'] })).stdout).toBe('on\n')
    await short.start()
    expect((await short.runCommand({ cmd: 'cat', args: ['kept'] })).stdout).toBe('kept\n')
    const { expiresAt } = await short.info()
    expect(expiresAt!.getTime() - Date.now()).toBeGreaterThan(DAY / 4)
  })

  it('backwards: no sandbox ends early, and new sandboxes work', async () => {
    const sandbox = await provider.create({ lifetimeMs: DAY })
    const { snapshotId } = await sandbox.snapshot({ name: 'of tomorrow' })
    setClock(-400 * DAY)
    expect((await sandbox.runCommand({ cmd: 'echo', args: ['on'] })).stdout).toBe('on\n')
    await sandbox.extendTimeout(DAY)
    expect((await sandbox.info()).expiresAt!.getTime() - Date.now()).toBeGreaterThanOrEqual(DAY)
    const copy = await provider.create({ snapshotId })
    const later = await sandbox.snapshot({ name: 'of today' })
    // The list is sorted by the clock and contains both.
    expect((await provider.listSnapshots()).map(({ name }) => name)).toEqual(['of today', 'of tomorrow'])
    expect(await provider.list()).toHaveLength(2)
    await copy.destroy()
    for (const id of [snapshotId, later.snapshotId]) expect(await provider.deleteSnapshot(id)).toBe(true)
    expect(await provider.sweep()).toEqual([])
  })

  it.each([-10_000 * DAY, 10_000 * DAY])(
    'by %i ms: a new process still finds sandboxes and cleans up',
    async (ms) => {
      const kept = await provider.create({ name: 'kept' })
      const left = await provider.create()
      const folder = path.join(root, 'sandboxes', left.sandboxId)
      const record = (await readRecord(folder))!
      // The leftover of a process that died during a create, when the clock had another value.
      const creator = { pid: 2 ** 22 + 1, started: '1' }
      await writeRecord(folder, { ...record, status: 'creating', creator, createdAt: Date.now() + ms })
      mkdirSync(path.join(root, 'layers'), { recursive: true })
      const half = path.join(root, 'layers', 'lock.aaaaaaaa')
      writeFileSync(half, '')
      utimesSync(half, new Date(), new Date(Math.max(Date.now() + ms, 0)))
      await using other = new EngineProvider({ isolator: 'oci', root })
      expect(await other.sweep()).toEqual([left.sandboxId])
      expect(readdirSync(path.join(root, 'layers')).filter((name) => name.startsWith('lock'))).toEqual([])
      expect((await other.list()).map(({ name }) => name)).toEqual(['kept'])
      expect((await kept.runCommand({ cmd: 'echo', args: ['on'] })).stdout).toBe('on\n')
    },
  )
})
