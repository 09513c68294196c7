import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Bench, createBench, open, reasonToSkip } from '../testing/bench.ts'
import { layoutOfThisMachine, planGroups } from './cgroups.ts'
import { withIoLimit } from './io-limit.ts'

const MiB = 1024 * 1024
const limits = {
  memoryBytes: 64 * MiB,
  pids: 64,
  cpus: 1,
  tmpBytes: MiB,
  shmBytes: MiB,
  openFiles: 1024,
}

describe('an I/O limit', () => {
  it('is written to the controller’s hierarchy', () => {
    const io = { device: '8:0', readBytesPerSecond: 5 * MiB, writeBytesPerSecond: MiB }
    const v1 = { memory: '/m', pids: '/p', cpu: '/c', blkio: '/b' }
    const old = planGroups({ v1, io }, 'x', limits).find(({ parent }) => parent === '/b/x')
    expect(old?.files.map(({ name, value }) => [name, value])).toEqual([
      ['blkio.throttle.read_bps_device', '8:0 5242880'],
      ['blkio.throttle.write_bps_device', '8:0 1048576'],
    ])
    const v2 = { root: '/v2', controllers: ['memory', 'pids', 'cpu', 'io'] }
    const [now] = planGroups({ v1: {}, v2, io }, 'x', limits)
    expect(now?.files).toContainEqual({
      name: 'io.max',
      value: '8:0 rbps=5242880 wbps=1048576',
      optional: false,
    })
    // Without a limit, no group is created.
    expect(planGroups({ v1 }, 'x', limits).map(({ parent }) => parent)).not.toContain('/b/x')
  })

  it('is rejected if no control group can enforce it', () => {
    const layout = { v1: { memory: '/m', pids: '/p', cpu: '/c' } }
    expect(() => withIoLimit(layout, '/', { readBytesPerSecond: MiB })).toThrow(/no control group/)
    expect(() => withIoLimit({ v1: { blkio: '/b' } }, '/proc', { readBytesPerSecond: MiB })).toThrow(
      /not on a disk/,
    )
    expect(() => withIoLimit(layout, '/', { readBytesPerSecond: 1 })).toThrow(/4096/)
    expect(withIoLimit(layout, '/', {})).toBe(layout)
  })
})

describe('a sandbox with an I/O limit', () => {
  let reason: string | undefined
  let bench: Bench
  beforeAll(async () => {
    reason = await reasonToSkip()
    if (reason !== undefined) return
    bench = await createBench()
    try {
      withIoLimit(layoutOfThisMachine(), bench.folder, { writeBytesPerSecond: MiB })
    } catch (error) {
      reason = (error as Error).message
    }
  })
  afterAll(() => bench?.[Symbol.asyncDispose]())
  beforeEach((ctx) => ctx.skip(reason !== undefined, reason))

  it('writes and reads no faster than the limit, and leaves no group behind', async () => {
    const isolator = bench.another({ ioLimit: { readBytesPerSecond: 4 * MiB, writeBytesPerSecond: 4 * MiB } })
    const spec = bench.spec()
    const box = await open(spec, await isolator.start(spec))
    const seconds = async (command: string) => {
      const startedAt = performance.now()
      expect((await box.sh(command)).code).toBe(0)
      return (performance.now() - startedAt) / 1000
    }
    expect(await seconds('dd if=/dev/zero of=f bs=1M count=8 oflag=direct')).toBeGreaterThan(1.2)
    expect(await seconds('dd if=f of=/dev/null bs=1M iflag=direct')).toBeGreaterThan(1.2)
    box.client.close()
    await isolator.remove(spec)
    await isolator.close()
    expect(bench.leftovers()).toEqual([])
  })
})
