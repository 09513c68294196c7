import { describe, expect, it } from 'vitest'
import { escapeCorpus, rss } from '../testing/escape.ts'
import { createBench, reasonToSkip } from './testing/bench.ts'
import { openCage } from './testing/cage.ts'

const reason = await reasonToSkip()

escapeCorpus(openCage, reason)

describe('a flood', () => {
  it('of errors from a runner does not grow its shim', async () => {
    await using bench = await createBench()
    const victim = await bench.start()
    const before = rss(victim.pids.shim)
    // Root may write to what it inherited from PID 1, if anyone may.
    await victim.sh('head -c 10000000 /dev/zero > /proc/1/fd/2', { user: '0' })
    expect(rss(victim.pids.shim) - before).toBeLessThan(1024)
    await victim.sandbox.kill()
  })
})
