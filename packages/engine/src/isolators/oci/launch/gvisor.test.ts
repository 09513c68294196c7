import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { RunnerClient } from '@sandkasten/runner-client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Bench, type Box, createBench, open, reasonToSkip } from '../testing/bench.ts'
import { testedRuntime } from '../testing/runtimes.ts'

const reason = await reasonToSkip('root', testedRuntime('runsc'))
const MiB = 1024 * 1024
let bench: Bench

beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
beforeAll(async () => {
  if (reason === undefined) bench = await createBench(testedRuntime('runsc'))
}, 600_000)
afterEach(async () => {
  await bench?.clear()
  expect(bench?.leftovers() ?? []).toEqual([])
})
afterAll(() => bench?.[Symbol.asyncDispose]())

describe('a sandbox on gVisor', () => {
  it('runs on another kernel and reports its end', async () => {
    const box = await bench.start()
    expect((await box.sh('cat /proc/version')).out).not.toBe(readFileSync('/proc/version', 'utf8').trim())
    const end = await box.sandbox.kill()
    expect(end).toMatchObject({ killed: true, oom: false, unwitnessed: false })
    expect(await bench.isolator.lastEnd(box.spec)).toEqual(end)
  })

  it('ends with its runner, its kernel or its file server, and reports its end', async () => {
    const stopped = await bench.start()
    await stopped.sh('kill -TERM 1', { user: '0' })
    expect(await stopped.sandbox.ended).toMatchObject({ exitCode: 0, killed: false, unwitnessed: false })
    const [sentry] = [await bench.start()]
    process.kill(sentry.pids.runner, 'SIGKILL')
    expect(await sentry.sandbox.ended).toMatchObject({ signal: 9, killed: false, unwitnessed: false })
    const box = await bench.start()
    const gofers = childrenOf(box.pids.shim).filter((pid) => pid !== box.pids.runner)
    expect(gofers.map((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[0])).toEqual([
      'runsc-gofer',
    ])
    process.kill(gofers[0]!, 'SIGKILL')
    expect(await box.sandbox.ended).toMatchObject({ killed: false, unwitnessed: false })
  })

  it('ends with its shim', async () => {
    const box = await bench.start()
    await box.client.startDetached({ id: 'sleeper', argv: ['/bin/sleep', '1000'] })
    process.kill(box.pids.shim, 'SIGKILL')
    expect(await box.sandbox.ended).toMatchObject({ unwitnessed: true })
  })

  it('keeps its disk, with the owners that the sandbox sees', async () => {
    const box = await bench.start()
    await box.sh('echo kept > file; ln file link; echo more >> link; chmod 640 link')
    await box.sh('echo roots > /var/tmp/roots', { user: '0' })
    // Hard links stay hard links.
    expect((await box.sh('cat file; stat -c "%a %h" file link')).out).toBe('kept\nmore\n640 2\n640 2')
    await box.sandbox.kill()
    const upper = join(box.spec.folder, 'disk/upper')
    expect(statSync(join(upper, 'workspace/file'))).toMatchObject({ uid: 1000, gid: 1000 })
    expect(readFileSync(join(upper, 'workspace/file'), 'utf8')).toBe('kept\nmore\n')
    const again = await open(box.spec, await bench.isolator.start(box.spec))
    expect((await again.sh('cat link; stat -c %u /var/tmp/roots')).out).toBe('kept\nmore\n0')
    again.client.close()
    await again.sandbox.kill()
    // Another runtime can use the same disk.
    const crun = bench.another({ runtime: 'crun' })
    const elsewhere = await open(box.spec, await crun.start(box.spec))
    expect((await elsewhere.sh('cat link; stat -c %u file')).out).toBe('kept\nmore\n1000')
    elsewhere.client.close()
  })
})

describe('connections to a sandbox on gVisor', () => {
  it('work in parallel and wait while the sandbox is held', async () => {
    const box = await bench.start()
    const clients = await Promise.all(
      Array.from({ length: 30 }, async () => RunnerClient.connect(await box.sandbox.connect())),
    )
    const said = await Promise.all(
      clients.map((client, index) => client.run({ id: `echo-${index}`, argv: ['/bin/echo', String(index)] })),
    )
    expect(said.map(({ stdout }) => Number(stdout))).toEqual(clients.map((_, index) => index))
    for (const client of clients) client.close()
    const release = await box.sandbox.hold()
    const late = box.sandbox.connect().then((stream) => RunnerClient.connect(stream))
    expect(await Promise.race([late, bench.frozen(box)])).toBe(true)
    release()
    const client = await late
    expect((await client.run({ id: 'late', argv: ['/bin/echo', 'in'] })).stdout.toString()).toBe('in\n')
    client.close()
  })
})

describe('limits on gVisor', () => {
  it('processes are counted inside: a fork bomb stops at the limit, and the sandbox keeps running', async () => {
    const box = await bench.start({ limits: { pids: 40 } })
    const bomb = `perl -e '$| = 1; my $n = 0; for (1..200) { my $p = fork; last unless defined $p; if (!$p) { sleep 1000 } $n++ } print "$n $!"; kill 9, -getpgrp'`
    const { out } = await box.sh(`exec setsid -w ${bomb}`)
    expect(out).toMatch(/^\d+ Resource temporarily unavailable/)
    expect(Number.parseInt(out, 10)).toBeLessThan(60)
    expect((await box.sh('echo still here')).out).toBe('still here')
    expect((await box.sandbox.stats()).pidsRefused).toBe(0)
  })

  it('memory: a process over the limit ends, alone or with its sandbox, and the kernel’s count shows it', async () => {
    const [box, neighbour] = [await bench.start({ limits: { memoryBytes: 32 * MiB } }), await bench.start()]
    const bomb = 'exec perl -e \'$| = 1; my @a; for (1..1024) { push @a, "x" x 1048576; print "$_\\n" }\''
    const said = await box.sh(bomb).catch(() => undefined)
    expect(Number(said?.out.split('\n').at(-1) ?? 0)).toBeLessThan(1024)
    expect((await neighbour.sh('echo fine')).out).toBe('fine')
    expect(await box.sandbox.kill()).toMatchObject({ oom: true })
  })

  it('disk: writing too much fills the sandbox’s limit, also after a stop', async () => {
    const box = await bench.start({ limits: { diskBytes: 32 * MiB } })
    const fill = 'head -c 100000000 /dev/zero > file; stat -c %s file'
    const { out, err } = await box.sh(fill)
    expect(err).toContain('No space left')
    expect(Number(out)).toBeLessThan(32 * MiB)
    await box.sandbox.kill()
    const again = await open(box.spec, await bench.isolator.start(box.spec))
    expect((await again.sh('stat -c %s file')).out).toBe(out)
    again.client.close()
  })
})

function childrenOf(pid: Box['pids']['shim']): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return text.split(' ').filter(Boolean).map(Number)
}
