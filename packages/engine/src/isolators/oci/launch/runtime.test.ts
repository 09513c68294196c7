import { chmodSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type CgroupLayout, layoutOfThisMachine } from '../limits/cgroups.ts'
import { createBench, open, reasonToSkip } from '../testing/bench.ts'
import { testedRuntime } from '../testing/runtimes.ts'
import { findRuntime, isolationOf, kindOf, leastLimits, runtimeOverhead, waysOf } from './runtime.ts'

const hybrid: CgroupLayout = {
  v1: { memory: '/cg/memory', cpu: '/cg/cpu', cpuacct: '/cg/cpu', devices: '/cg/devices' },
  v2: { root: '/cg/unified', controllers: [] },
}

describe('the kind of a runtime', () => {
  it('comes from its name or its version', async () => {
    expect(kindOf('runc version 1.1.5+ds1')).toBe('runc')
    expect(kindOf('crun version 1.8.1')).toBe('crun')
    expect(kindOf('runsc version 0.0~20240729.0')).toBe('runsc')
    expect(kindOf('runcible 3')).toBeUndefined()
    expect(
      [{}, { runtime: '/opt/runsc' }, { runtime: '/x', runtimeKind: 'runsc' as const }].map(isolationOf),
    ).toEqual(['container', 'gvisor', 'gvisor'])
    await expect(findRuntime('/bin/true')).rejects.toThrow(/not a known runtime/)
    await expect(findRuntime('no-such-runtime')).rejects.toThrow(/not installed/)
    expect(await findRuntime('/bin/true', 'runc')).toEqual({ kind: 'runc', program: '/bin/true' })
    expect(await findRuntime('/opt/runc')).toEqual({ kind: 'runc', program: '/opt/runc' })
  })

  it('runc can read all control groups and change none', () => {
    expect(waysOf('runc', '/stage', hybrid)).toMatchObject({
      hide: [],
      readOnly: ['/cg/memory', '/cg/cpu', '/cg/devices', '/cg/unified'],
    })
    expect(waysOf('crun', '/stage', hybrid)).toMatchObject({ hide: ['/cg/unified'], readOnly: [] })
  })
})

describe.each(['runc', 'runsc'] as const)('%s', async (kind) => {
  const runtime = testedRuntime(kind)
  const reason = await reasonToSkip('root', runtime)
  const test = (name: string, body: () => Promise<void>) =>
    it(name, async (ctx) => {
      ctx.skip(reason !== undefined, reason)
      await body()
    }, 120_000)

  test('starts with the lowest accepted limits and rejects lower ones', async () => {
    await using bench = await createBench(runtime)
    const limits = leastLimits(kind)
    const box = await bench.start({ limits })
    expect((await box.sh('echo in')).out).toBe('in')
    const memoryLimitBytes = limits.memoryBytes + runtimeOverhead(kind, limits).memoryBytes
    expect(await box.sandbox.stats()).toMatchObject({ memoryLimitBytes, oomKills: 0 })
    const less = bench.spec({ limits: { ...limits, memoryBytes: limits.memoryBytes - 1 } })
    await expect(bench.isolator.start(less)).rejects.toThrow(`needed on ${kind}`)
    expect(existsSync(less.folder)).toBe(false)
  })

  test('creates no control group, neither in ours nor elsewhere', async () => {
    await using bench = await createBench(runtime)
    await bench.start()
    for (const root of [
      ...Object.values(layoutOfThisMachine().v1),
      '/sys/fs/cgroup/unified',
      '/sys/fs/cgroup',
    ])
      expect(existsSync(join(root, 'sandbox'))).toBe(false)
    await bench.clear()
    expect(bench.leftovers()).toEqual([])
  })

  test('a sandbox is held, frozen, found by another process, killed, and leaves nothing', async () => {
    await using bench = await createBench(runtime)
    const box = await bench.start()
    const release = await box.sandbox.hold()
    expect(bench.frozen(box)).toBe(true)
    release()
    await expect.poll(() => bench.frozen(box), { timeout: 10_000 }).toBe(false)
    await box.sandbox.freeze()
    expect(bench.frozen(box)).toBe(true)
    await box.sandbox.thaw()
    const found = await bench.another().attach(box.spec)
    expect((await (await open(box.spec, found!)).sh('echo same')).out).toBe('same')
    expect(await found!.kill()).toMatchObject({ killed: true, unwitnessed: false })
    expect(await box.sandbox.ended).toMatchObject({ killed: true, oomKills: 0 })
    await bench.clear()
    expect(bench.leftovers()).toEqual([])
  })

  test('can be given as a path', async () => {
    await using bench = await createBench(runtime)
    const wrapper = join(bench.folder, 'wrapper')
    writeFileSync(wrapper, `#!/bin/sh\nexec ${(await findRuntime(runtime)).program} "$@"\n`)
    chmodSync(wrapper, 0o755)
    const another = bench.another({ runtime: wrapper })
    expect(await another.probe()).toMatchObject({ ok: true, detail: expect.stringContaining(kind) })
    const spec = bench.spec()
    const box = await open(spec, await another.start(spec))
    expect((await box.sh('echo through')).out).toBe('through')
    box.client.close()
    await another.remove(spec)
  })

  test('provides a requested network or rejects it', async () => {
    await using bench = await createBench(runtime)
    if (kind === 'runsc') {
      await expect(bench.start({ network: 'open' })).rejects.toMatchObject({ code: 'unsupported' })
      return
    }
    const box = await bench.start({ network: 'open' })
    const names = (await box.sh('sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d " "')).out.split('\n')
    expect(names).toContain('lo')
    expect(names.length).toBeGreaterThan(1)
  })
})
