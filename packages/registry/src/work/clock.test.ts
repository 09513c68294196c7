import { ManualClock, MemoryProvider } from '@sandkasten/sdk/memory'
import { describe, expect, it, onTestFinished } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { wrap } from '../lifecycle/testing/registry.ts'
import { SteadyTime } from './steady-time.ts'
import { openProcess } from './testing/process.ts'

describeOnEachDatabase('a clock that jumps', (newDatabase) => {
  const minute = 60_000
  const hour = 60 * minute
  const day = 24 * hour
  const start = 1_800_000_000_000

  /** A provider with the true time, and processes on a machine whose clock may be set. */
  async function setUp() {
    const clock = new ManualClock(start)
    const inner = new MemoryProvider({ clock })
    const { provider, counts } = wrap(inner)
    const location = await newDatabase()
    const machine = { ahead: 0 }
    const open = async () => {
      const { now } = new SteadyTime({ now: () => clock.now() + machine.ahead, elapsed: () => clock.now() })
      const opened = await openProcess(location, [provider], { now })
      onTestFinished(opened.close)
      return opened
    }
    const process = await open()
    await process.sandboxes.create({ name: 'ends', lifetimeMs: hour })
    await process.sandboxes.create({ name: 'idle', idleStopMs: 30 * minute })
    await process.sandboxes.create({ name: 'used', lifetimeMs: hour, idleStopMs: 30 * minute })
    await process.uses.begin({ sandboxId: (await process.row('used')).id, purpose: 'agent' }, 1)
    const did = () => [counts.stop ?? 0, counts.snapshot ?? 0, counts.destroy ?? 0]
    return { clock, machine, process, open, did }
  }

  describe.each([
    ['ahead', day],
    ['back', -day],
  ])('a clock that jumps %s while the process runs', (_, jump) => {
    it('changes nothing, and all work is done at its time', async () => {
      const { clock, machine, process, did } = await setUp()
      machine.ahead = jump
      expect(await process.work.once()).toEqual({ done: [], failed: [] })
      await clock.advance(29 * minute)
      expect(await process.work.once()).toEqual({ done: [], failed: [] })
      expect(did()).toEqual([0, 0, 0])
      await clock.advance(minute)
      expect((await process.work.once()).done).toMatchObject([{ sandbox: 'idle' }])
      await clock.advance(28 * minute)
      const { done, failed } = await process.work.once()
      expect(failed).toEqual([])
      expect(new Map(done.map(({ sandbox, action }) => [sandbox, action]))).toEqual(
        new Map([
          ['ends', 'saved before its end'],
          ['used', 'extended, because it is in use'],
        ]),
      )
      expect(did()).toEqual([1, 1, 0])
    })
  })

  describe('a process that starts after the jump', () => {
    it('ahead leaves alone what is in use, and what the provider still runs', async () => {
      const { clock, machine, open, did } = await setUp()
      machine.ahead = day
      const late = await open()
      for (let round = 0; round < 20; round += 1) {
        await late.work.once()
        await clock.advance(minute)
      }
      // `idle` is not in use, and only this clock says since when.
      expect(did()).toEqual([1, 0, 0])
      expect(await late.row('used')).toMatchObject({ status: 'running', error_message: null })
      expect(await late.row('ends')).toMatchObject({ status: 'running', error_message: null })
    })

    it('back still stops what is not used', async () => {
      const { clock, machine, open, did } = await setUp()
      machine.ahead = -day
      const late = await open()
      await late.work.once()
      await clock.advance(29 * minute)
      await late.work.once()
      expect(did()).toEqual([0, 0, 0])
      await clock.advance(2 * minute)
      expect((await late.work.once()).done).toMatchObject([{ sandbox: 'idle' }])
      expect(did()).toEqual([1, 0, 0])
    })
  })
})
