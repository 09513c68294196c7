import type { SandboxInfo } from '@sandkasten/sdk'
import { ManualClock, MemoryProvider } from '@sandkasten/sdk/memory'
import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { openProcess, type TestProcess } from '../work/testing/process.ts'
import { wrap } from './testing/registry.ts'

const minute = 60_000

/** The provider reports a status that the SDK does not know. Nothing may be done to such a sandbox. */
describeOnEachDatabase('a sandbox in an unknown status', (newDatabase) => {
  let clock: ManualClock
  let memory: MemoryProvider
  let wrapped: ReturnType<typeof wrap<MemoryProvider>>
  let process: TestProcess

  beforeEach(async () => {
    clock = new ManualClock(1_800_000_000_000)
    memory = new MemoryProvider({ seed: 'mem', clock })
    wrapped = wrap(memory)
    process = await openProcess(await newDatabase(), [wrapped.provider], { now: () => clock.now() })
    onTestFinished(process.close)
    await process.sandboxes.create({ name: 'demo', idleStopMs: minute })
  })

  const setUnknown = () => {
    const change = (info: SandboxInfo) => ({ ...info, status: 'unknown', rawStatus: 'hibernating' })
    wrapped.instead.info = async (real) => change((await real()) as SandboxInfo)
    wrapped.instead.list = async (real) => ((await real()) as SandboxInfo[]).map(change)
  }
  const setKnown = () => {
    wrapped.instead.info = undefined
    wrapped.instead.list = undefined
  }
  const changes = () =>
    ['start', 'stop', 'pause', 'snapshot', 'destroy'].map((call) => wrapped.counts[call] ?? 0)
  const unknown = {
    status: 'unknown',
    unreachable: false,
    errorMessage: 'The provider reports the status “hibernating”.',
  }

  it.each(['stop', 'snapshot', 'start'] as const)(
    'is not changed by %s, which says what the provider calls it',
    async (call) => {
      setUnknown()
      await expect(process.sandboxes[call]('demo')).rejects.toMatchObject({
        code: 'unavailable',
        message: '“demo” is still in the status “hibernating” at memory.',
        details: { rawStatus: 'hibernating' },
      })
      expect(changes()).toEqual([0, 0, 0, 0, 0])
      expect(await process.sandboxes.get('demo')).toMatchObject({
        status: 'running',
        errorMessage: expect.stringContaining('hibernating'),
      })
      setKnown()
      await process.sandboxes[call]('demo')
      expect((await process.sandboxes.get('demo')).errorMessage).toBeUndefined()
    },
  )

  it('is waited for by stop, if it does not last', async () => {
    setUnknown()
    const steps: string[] = []
    const stopping = process.sandboxes.stop('demo', {
      onProgress: ({ message }) => {
        steps.push(message)
        setKnown()
      },
    })
    expect(await stopping).toMatchObject({ status: 'stopped' })
    expect(steps[0]).toContain('hibernating')
  })

  it('is shown as unknown by a list, with the provider’s word, until it is known again', async () => {
    setUnknown()
    expect(await process.sandboxes.list({ refresh: true })).toMatchObject([unknown])
    expect(await process.sandboxes.list({ status: 'unknown' })).toMatchObject([unknown])
    setKnown()
    expect(await process.sandboxes.list({ refresh: true })).toMatchObject([
      { status: 'running', errorMessage: undefined },
    ])
  })

  it('is left alone by due work, which looks again later', async () => {
    setUnknown()
    await clock.advance(minute)
    expect(await process.work.once()).toEqual({
      done: [{ sandbox: 'demo', action: 'is unknown at memory' }],
      failed: [],
    })
    expect(changes()).toEqual([0, 0, 0, 0, 0])
    expect(await process.sandboxes.get('demo')).toMatchObject(unknown)
    expect(await process.work.once()).toEqual({ done: [], failed: [] })
    setKnown()
    await clock.advance(5 * minute)
    expect((await process.work.once()).done).toEqual([{ sandbox: 'demo', action: 'is running at memory' }])
    await clock.advance(minute)
    expect((await process.work.once()).done).toEqual([
      { sandbox: 'demo', action: 'stopped after 1 minute without use' },
    ])
  })

  it('is destroyed when its owner wants that', async () => {
    setUnknown()
    expect(await process.sandboxes.destroy('demo')).toMatchObject({ existed: true })
    expect(await memory.list()).toEqual([])
  })
})
