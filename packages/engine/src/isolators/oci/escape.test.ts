import { existsSync, readlinkSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { describe, expect, it } from 'vitest'
import { escapeCorpus, rss } from '../testing/escape.ts'
import { createBench, reasonToSkip } from './testing/bench.ts'
import { openCage } from './testing/cage.ts'

const reason = await reasonToSkip('anyone')

escapeCorpus(openCage, reason)

describe('the runner’s socket', () => {
  it('is of no network of the host, and root’s alone', async (ctx) => {
    ctx.skip(reason !== undefined, reason)
    await using cage = await openCage()
    const { sh, socket } = await cage.start()
    expect((await sh('readlink /proc/self/ns/net')).out).not.toBe(readlinkSync('/proc/self/ns/net'))
    expect(existsSync(socket)).toBe(true)
    expect(statSync(dirname(socket)).mode & 0o077).toBe(0)
  })
})

describe('a flood', () => {
  it('of errors from a runner does not grow its shim', async (ctx) => {
    ctx.skip(reason !== undefined, reason)
    await using bench = await createBench()
    const victim = await bench.start()
    const before = rss(victim.pids.shim)
    // Root may write to what it inherited from PID 1, if anyone may.
    await victim.sh('head -c 10000000 /dev/zero > /proc/1/fd/2', { user: bench.users.at(-1)! })
    expect(rss(victim.pids.shim) - before).toBeLessThan(1024)
    await victim.sandbox.kill()
  })
})
