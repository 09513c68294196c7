import { accessSync, constants, globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { OutputEvent } from '@sandkasten/runner-client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { imageStore } from '../../../provider/engine-provider.ts'
import { type Bench, type Box, createBench, readOr, reasonToSkip } from '../testing/bench.ts'
import { thisAccount } from './account.ts'

/** The engine of an ordinary account. As root, run `ordinary-account.test.ts`, which runs this file as two accounts. */

const reason =
  process.getuid?.() === 0 ? 'it is for ordinary accounts; see those' : await reasonToSkip('anyone')
let bench: Bench

beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
beforeAll(async () => {
  if (reason === undefined) bench = await createBench()
}, 600_000)
afterEach(() => bench?.clear())
afterAll(() => bench?.[Symbol.asyncDispose]())

describe('an account', () => {
  it('has limits, and reports its weaknesses', async () => {
    const wanted = process.env.SANDKASTEN_TEST_ACCOUNT
    if (wanted) expect(bench.kind).toBe(wanted)
    const group = process.env.SANDKASTEN_TEST_GROUP
    expect(bench.isolator.privileges.layout().v2?.root).toBe(group)
    const probe = await bench.another({ runner: bench.options.runner }).probe()
    const weaker = await bench.isolator.weaker()
    expect(probe).toMatchObject({ ok: true, weaker })
    expect(weaker.join(' ')).toContain(
      bench.kind === 'own' ? 'account itself' : 'same user ids as the other sandboxes',
    )
  })

  it('with a range, its sandboxes run as other users and without its groups', async () => {
    const box = await bench.start()
    const { uid, gid } = thisAccount()
    const numbers = (name: string) => {
      const status = readFileSync(`/proc/${box.pids.runner}/status`, 'utf8')
      const line = new RegExp(`^${name}:(.*)$`, 'm').exec(status)![1]!
      return line.trim().split(/\s+/).filter(Boolean).map(Number)
    }
    if (bench.kind === 'own') {
      expect([...new Set(numbers('Uid'))]).toEqual([uid])
      return
    }
    expect([...new Set(numbers('Uid'))]).toEqual([bench.hostId(box, 0)])
    expect(numbers('Uid')).not.toContain(uid)
    expect(numbers('Gid')).not.toContain(gid)
    for (const group of process.getgroups!()) expect(numbers('Groups')).not.toContain(group)
  })

  it('a writable mount: files belong to the account, or it is refused with the reason', async () => {
    const source = join(bench.folder, 'shared')
    mkdirSync(source)
    const mounts = [{ source, target: '/shared', readOnly: false, asOwner: true }]
    if (bench.kind === 'range') {
      await expect(bench.start({ mounts })).rejects.toMatchObject({
        code: 'unsupported',
        message: expect.stringContaining('subordinate ids'),
        hint: expect.stringContaining('read-only'),
      })
      return
    }
    const box = await bench.start({ mounts })
    expect((await box.sh('echo x > /shared/file && chmod 4755 /shared/file')).err).toContain('not permitted')
    const { uid, mode } = statSync(join(source, 'file'))
    expect([uid, mode & 0o6000]).toEqual([thisAccount().uid, 0])
  })

  it('keeps a sandbox’s files, and removes them with any owner and mode', async () => {
    const box = await bench.start()
    for (const user of bench.users) {
      const wrote = await box.sh(
        `cd /var/tmp; mkdir -p ${user}/b; echo kept > ${user}/b/c; chmod 000 ${user}/b`,
        {
          user,
        },
      )
      expect(wrote).toMatchObject({ code: 0, err: '' })
    }
    await box.sandbox.kill()
    const again = await bench.start({ ...box.spec })
    expect(
      (await again.sh('chmod 700 /var/tmp/1000/b; cat /var/tmp/1000/b/c; chmod 0 /var/tmp/1000/b')).out,
    ).toBe('kept')
    expect(await bench.isolator.remove(again.spec)).toBe(true)
    expect(readOr(join(again.spec.folder, 'disk'))).toBeUndefined()
    expect(bench.leftovers()).toEqual([])
  })

  it('without a range it rejects images, and the error says how to get a range', async () => {
    const store = imageStore({ root: join(bench.folder, 'images'), oci: { runner: bench.options.runner } })
    const asked = store.import('oci:/nowhere', { name: 'x' })
    await expect(asked).rejects.toMatchObject(
      bench.kind === 'own'
        ? { code: 'unsupported', hint: expect.stringContaining('doctor') }
        : { code: 'invalid_argument', message: expect.stringContaining('does not exist') },
    )
  })

  it('rejects a limited disk, a disk with other ids, and other runtimes than crun', async () => {
    const limited = { limits: { diskBytes: 64 * 1024 * 1024 } }
    await expect(bench.start(limited)).rejects.toMatchObject({
      code: 'unsupported',
      hint: expect.stringContaining('root'),
    })
    const box = await bench.start()
    await box.sandbox.kill()
    writeFileSync(join(box.spec.folder, 'range'), bench.kind === 'own' ? '1' : '0')
    await expect(bench.start({ ...box.spec })).rejects.toMatchObject({ code: 'unsupported' })
    const onRunc = bench.another({ runtime: '/bin/true', runtimeKind: 'runc' })
    await expect(onRunc.start(bench.spec())).rejects.toMatchObject({
      code: 'unsupported',
      hint: expect.stringContaining('crun'),
    })
    expect(await onRunc.probe()).toMatchObject({ ok: false, fix: expect.stringContaining('as root') })
    expect(bench.leftovers()).toEqual([])
  })
})

async function firstLine(output: AsyncIterable<OutputEvent>): Promise<string> {
  for await (const event of output) if (event.type === 'output') return Buffer.from(event.data).toString()
  return ''
}

describe('limits without control groups', () => {
  it('processes: a fork bomb stops at its limit while another sandbox can start programs', async () => {
    const limits = { pids: 32 }
    const [bomb, neighbour] = [await bench.start({ limits }), await bench.start({ limits })]
    const count = `my ($n, @all) = (0); while ($n < 200) { my $p = fork; last unless defined $p; if (!$p) { sleep 1000; exit } push @all, $p; $n++ } print "$n\\n";`
    // The bomb keeps killing and forking, so there is always room for another process.
    const more = `$SIG{CHLD} = 'IGNORE'; while (1) { kill 'KILL', shift @all if @all; for (1..9) { my $p = fork; next unless defined $p; if (!$p) { sleep 1000; exit } push @all, $p } select undef, undef, undef, .001 }`
    const output = await bomb.client.start({
      id: 'bomb',
      argv: ['/usr/bin/perl', '-e', `$| = 1; ${count} ${more}`],
    })
    const forked = Number((await firstLine(output)).trim())
    expect(forked).toBeGreaterThan(16)
    expect(forked).toBeLessThan(48)
    for (let tries = 0; tries < 100; tries++)
      expect((await neighbour.sh('sh -c "sh -c \'echo fine\'"')).out).toBe('fine')
    expect((await bomb.client.list()).find(({ id }) => id === 'bomb')?.running).toBe(true)
    await bomb.sandbox.kill()
  })

  it('memory: limits each process and files in memory, and does not report out of memory', async () => {
    const box = await bench.start({ limits: { memoryBytes: 64 * 1024 * 1024, tmpBytes: 1024 * 1024 * 1024 } })
    const bomb = await box.sh(`perl -e 'my $x = "x" x (200 * 1024 * 1024); print length $x'`)
    expect(bomb.out).toBe('')
    expect(bomb.code).not.toBe(0)
    expect((await box.sh('head -c 200000000 /dev/zero > /tmp/x')).err).toContain('No space left')
    expect((await box.sh('echo alive')).out).toBe('alive')
    expect((await box.sandbox.kill()).oom).toBeUndefined()
  })
})

describe('freezing, by signals or by a delegated control group', () => {
  function stands({ pids }: Box): boolean {
    const { v2 } = bench.isolator.privileges.layout()
    if (!v2) return /^State:\s+T/m.test(readOr(`/proc/${pids.runner}/status`) ?? '')
    const [events] = globSync(join(v2.root, bench.options.cgroupParent!, `${pids.shim}-*`, 'cgroup.events'))
    return readFileSync(events!, 'utf8').includes('frozen 1')
  }

  it('freezes and thaws all processes but those stopped before; a frozen sandbox can be killed', async () => {
    const box = await bench.start()
    await box.client.startDetached({ id: 'one', argv: ['/bin/sh', '-c', 'kill -STOP $$; echo went on'] })
    await box.client.startDetached({ id: 'two', argv: ['/bin/sleep', '1000'] })
    await vi.waitFor(async () =>
      expect((await box.sh('grep -c "^State:.T" /proc/[0-9]*/status | grep -c ":1"')).out).toBe('1'),
    )
    await box.sandbox.freeze()
    expect(stands(box)).toBe(true)
    await box.sandbox.thaw()
    expect((await box.sh('echo alive')).out).toBe('alive')
    expect((await box.sh('grep -c "^State:.T" /proc/[0-9]*/status | grep -c ":1"')).out).toBe('1')
    await box.sandbox.freeze()
    expect(await box.sandbox.kill()).toMatchObject({ killed: true })
  })

  it('freezes a shell that starts one program after the other, each with vfork', async () => {
    const box = await bench.start()
    for (const id of ['one', 'two'])
      await box.client.startDetached({ id, argv: ['/bin/sh', '-c', 'while :; do /bin/true; done'] })
    for (let round = 0; round < 30; round += 1) {
      await box.sandbox.freeze()
      expect(stands(box)).toBe(true)
      await box.sandbox.thaw()
      expect((await box.sh('echo alive')).out).toBe('alive')
    }
  })

  it('a pause outlasts a hold', async () => {
    const box = await bench.start()
    const release = await box.sandbox.hold()
    expect(stands(box)).toBe(true)
    release()
    expect((await box.sh('echo alive')).out).toBe('alive')
    await box.sandbox.freeze()
    const again = await box.sandbox.hold()
    again()
    // The shim answers in order, so this hold starts after the last one was released.
    ;(await box.sandbox.hold())()
    expect(stands(box)).toBe(true)
    await box.sandbox.thaw()
    expect((await box.sh('echo alive')).out).toBe('alive')
  })
})

describe('network open', () => {
  it('has an interface of its own, and not the host’s loopback', async (ctx) => {
    try {
      accessSync('/dev/net/tun', constants.R_OK | constants.W_OK)
    } catch {
      ctx.skip('this account may not open /dev/net/tun')
    }
    const box = await bench.start({ network: 'open' })
    const names = (await box.sh('sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d " "')).out.split('\n')
    expect(names.length).toBeGreaterThan(1)
  })
})
