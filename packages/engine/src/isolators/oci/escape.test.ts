import { existsSync, readlinkSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { describe, expect, it } from 'vitest'
import { escapeCorpus, rss } from '../testing/escape.ts'
import { createBench, reasonToSkip } from './testing/bench.ts'
import { openCage } from './testing/cage.ts'

const reason = await reasonToSkip('anyone')

escapeCorpus(openCage, reason)

describe('the runner’s socket', () => {
  it('is in no network namespace of the host and is accessible to root only', async (ctx) => {
    ctx.skip(reason !== undefined, reason)
    await using cage = await openCage()
    const { sh, socket } = await cage.start()
    expect((await sh('readlink /proc/self/ns/net')).out).not.toBe(readlinkSync('/proc/self/ns/net'))
    expect(existsSync(socket)).toBe(true)
    expect(statSync(dirname(socket)).mode & 0o077).toBe(0)
  })
})

describe('a flood of errors', () => {
  it('from a runner does not grow the memory of its shim', async (ctx) => {
    ctx.skip(reason !== undefined, reason)
    await using bench = await createBench()
    const victim = await bench.start()
    const before = rss(victim.pids.shim)
    // If any user can write to the streams inherited from PID 1, root can.
    await victim.sh('head -c 10000000 /dev/zero > /proc/1/fd/2', { user: bench.users.at(-1)! })
    expect(rss(victim.pids.shim) - before).toBeLessThan(1024)
    await victim.sandbox.kill()
  })
})
