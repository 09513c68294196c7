import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { thisArchitecture } from '../oci/probe.ts'
import { policyFor } from '../oci/seccomp/allowed-calls.ts'
import type { Cage, Captive } from './cage.ts'

/** Kernel resources that one sandbox might exhaust for others: see `docs/kernel-resources.md`. */
export type SharedResource = 'inotify' | 'terminals' | 'queues' | 'timers' | 'signals' | 'pipes'

const numbers = policyFor(thisArchitecture()).numbers

/**
 * Allocates as many objects as it gets, prints their number, and optionally keeps them. The kernel frees them when the
 * process ends, except a queue that could not be unlinked.
 */
const GRAB = `
use strict; $| = 1; my ($what, $most, $keep) = @ARGV; my ($n, @kept) = (0);
my %take = (
  inotify => sub { syscall(${numbers.inotify_init1}, 0) >= 0 },
  terminals => sub { open(my $f, '+<', '/dev/ptmx') or return; push @kept, $f },
  queues => sub {
    my ($name, $again, $attributes) = ("q$$-$n", "q$$-$n", pack('q8', 0, 10, 8192, 0, 0, 0, 0, 0));
    syscall(${numbers.mq_open}, $name, 0102, 0600, $attributes) >= 0 and syscall(${numbers.mq_unlink}, $again) == 0
  },
  timers => sub { my $id = pack('q', 0); syscall(${numbers.timer_create}, 1, 0, $id) == 0 },
  signals => sub { my $info = pack('i6x104', 36, 0, -1, 0, $$, $<); syscall(${numbers.rt_sigqueueinfo}, $$, 36, $info) == 0 },
  pipes => sub { pipe(my $r, my $w) or return; push @kept, $r, $w; fcntl($w, 1031, 1 << 20) },
);
my $blocked = pack('Q', 1 << 35); syscall(${numbers.rt_sigprocmask}, 0, $blocked, 0, 8);
$n++ while $n < $most && $take{$what}->();
print "$n\\n";
sleep 1000 if $keep;
`

/**
 * One sandbox allocates as much of a resource as it can, with several processes. Meanwhile the engine's account and
 * another sandbox must still be able to allocate some.
 */
export function kernelResources(open: () => Promise<Cage>, reason: string | undefined): void {
  let cage: Cage
  let attacker: Captive
  let neighbour: Captive

  beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
  beforeAll(async () => {
    if (reason !== undefined) return
    cage = await open()
    attacker = await cage.start()
    neighbour = await cage.start()
  }, 600_000)
  afterAll(async () => cage?.[Symbol.asyncDispose](), 120_000)

  describe('a sandbox cannot exhaust a resource for others', () => {
    const few = { inotify: 16, terminals: 64, queues: 1, timers: 1000, signals: 1000, pipes: 16 }

    it.for(Object.entries(few) as [SharedResource, number][])('%s', async ([resource, enough], ctx) => {
      const { shared } = cage.traits
      const everywhere = resource === 'terminals' && shared?.neighbours.includes(resource) === true
      ctx.skip(everywhere, 'shared by all containers: without terminals, tests beside this one would fail')
      const users = cage.traits.ids === 'account' ? ['1000'] : ['1000', '0']
      // gVisor keeps these objects in the sandbox's memory, where many thousands are slow and exceed the limit.
      const most = cage.traits.ownKernel ? 2000 : 20_000
      for (const user of users) {
        const free = async () =>
          Number(
            (await neighbour.sh(`exec perl -e "$GRAB" ${resource} ${enough}`, { env: { GRAB }, user })).out,
          )
        const before = await free()
        if (!cage.traits.ownKernel) expect(before).toBe(enough)
        const id = `attack-${resource}-${user}`
        const attack = `for i in 1 2 3 4 5 6; do perl -e "$GRAB" ${resource} ${most} keep >> /tmp/${id} & done; wait`
        const argv = ['/bin/sh', '-c', attack]
        await attacker.client.startDetached({ id, argv, env: { GRAB }, user })
        // Every process has printed its number, so the resource is exhausted.
        const lines = async () => Number((await attacker.sh(`wc -l < /tmp/${id}`)).out)
        await expect.poll(lines, { timeout: 60_000, interval: 100 }).toBe(6)
        expect(here(resource, enough), 'outside').toBeGreaterThanOrEqual(
          shared?.host.includes(resource) ? 0 : enough,
        )
        expect(await free(), 'neighbour').toBeGreaterThanOrEqual(
          shared?.neighbours.includes(resource) ? 0 : before,
        )
        await attacker.client.signal(id, 'KILL', { group: true })
      }
    })

    it('asynchronous I/O: fails with ENOSYS, so that libraries fall back', async () => {
      const setup = `perl -e 'my $c = pack("Q", 0); print syscall(${numbers.io_setup}, 128, $c) == -1 ? $! + 0 : "DONE"'`
      expect((await attacker.sh(setup)).out).toBe('38')
    })

    it('TCP buffers: limited to a part of the sandbox’s memory', async (ctx) => {
      ctx.skip(!cage.traits.countsOom, 'no control group counts the sandbox’s memory')
      ctx.skip(cage.traits.ownKernel === true, 'gVisor keeps them in the memory of the sandbox')
      ctx.skip(cage.traits.daemonMounts === true, 'runc ignores this limit when a daemon sets it')
      const pages = () => Number(/^TCP:.* mem (\d+)/m.exec(readFileSync('/proc/net/sockstat', 'utf8'))![1])
      const before = pages()
      // Writes until nothing more fits, and never reads.
      const fill = [
        `use IO::Socket::INET;`,
        `my $l = IO::Socket::INET->new(Listen => 500, LocalAddr => '127.0.0.1:0') or die $@; my (@all, $n);`,
        `for (1..200) { my $c = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $l->sockport) or last;`,
        `push @all, $c, $l->accept; $c->blocking(0); 1 while $n < 2e9 && syswrite($c, 'x' x 65536) }`,
        `print 'filled'; close STDOUT; sleep 1000`,
      ].join(' ')
      const process = await attacker.client.start({ id: 'tcp', argv: ['/usr/bin/perl', '-e', fill] })
      for await (const event of process) if (event.type === 'output') break
      // The sandbox may use 256 MiB, and other tests on this machine use some too.
      expect(pages() - before).toBeLessThan((128 * 1024 * 1024) / 4096)
      await attacker.client.signal('tcp', 'KILL', { group: true })
    })

    it('namespaces: none can be created, even if the filter allows the call', async (ctx) => {
      ctx.skip(
        cage.traits.ownKernel === true || cage.traits.daemonMounts === true,
        'only the filter prevents it',
      )
      expect((await attacker.sh('cat /proc/sys/user/max_user_namespaces')).out).toBe('0')
    })
  })

  it('no process can change its oom_score_adj', async (ctx) => {
    ctx.skip(cage.traits.ownKernel === true, 'gVisor has no out-of-memory killer')
    ctx.skip(cage.traits.writableProc === true, 'Podman has no option for a read-only /proc')
    for (const user of cage.traits.ids === 'account' ? ['1000'] : ['1000', '0']) {
      const { out } = await attacker.sh(
        'cat /proc/self/oom_score_adj; for n in 0 499 501 1000; do echo $n > /proc/self/oom_score_adj; done; cat /proc/self/oom_score_adj /proc/1/oom_score_adj',
        { user },
      )
      expect(out.split('\n')).toEqual(['500', '500', '500'])
    }
  })
}

/** Runs on the host, as the account that runs the tests. */
function here(resource: SharedResource, most: number): number {
  return Number(execFileSync('perl', ['-e', GRAB, resource, String(most)], { encoding: 'utf8' }))
}
