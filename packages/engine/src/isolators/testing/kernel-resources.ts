import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { thisArchitecture } from '../oci/probe.ts'
import { policyFor } from '../oci/seccomp/policy.ts'
import type { Cage, Captive } from './cage.ts'

/** Counters of the kernel that a sandbox may use up for others: see `docs/kernel-resources.md`. */
export type SharedResource = 'inotify' | 'terminals' | 'queues' | 'timers' | 'signals' | 'pipes'

const numbers = policyFor(thisArchitecture()).numbers

/**
 * Takes as many as it gets, says how many, and keeps them if told so. Everything that it takes goes with its process, but for a queue that could not be
 * unlinked.
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
 * One sandbox takes all that it can get of a resource, with as many processes as help. Meanwhile the account that the engine runs as, the host's root
 * where it is root, and a neighbour take some too.
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

  describe('what a sandbox uses up is still there for others', () => {
    const few = { inotify: 16, terminals: 64, queues: 1, timers: 1000, signals: 1000, pipes: 16 }

    it.each(Object.entries(few) as [SharedResource, number][])('%s', async (resource, enough) => {
      const users = cage.traits.ids === 'account' ? ['1000'] : ['1000', '0']
      // A gVisor has all of these in its own memory, of which many thousands take long, and more than the sandbox may have.
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
        // All of them have said how much they got: there is no more to be had.
        const lines = async () => Number((await attacker.sh(`wc -l < /tmp/${id}`)).out)
        await expect.poll(lines, { timeout: 60_000, interval: 100 }).toBe(6)
        const { shared } = cage.traits
        expect(here(resource, enough), 'outside').toBeGreaterThanOrEqual(
          shared?.host.includes(resource) ? 0 : enough,
        )
        expect(await free(), 'neighbour').toBeGreaterThanOrEqual(
          shared?.neighbours.includes(resource) ? 0 : before,
        )
        await attacker.client.signal(id, 'KILL', { group: true })
      }
    })

    it('asynchronous I/O: refused as by a kernel without it, so that libraries fall back', async () => {
      const setup = `perl -e 'my $c = pack("Q", 0); print syscall(${numbers.io_setup}, 128, $c) == -1 ? $! + 0 : "DONE"'`
      expect((await attacker.sh(setup)).out).toBe('38')
    })

    it('buffers of TCP: no more than a part of the sandbox’s own memory', async (ctx) => {
      ctx.skip(!cage.traits.countsOom, 'nothing counts its memory as a whole')
      ctx.skip(cage.traits.ownKernel === true, 'its own kernel has them, in the memory of the sandbox')
      ctx.skip(cage.traits.daemonMounts === true, 'runc ignores a limit of these that a daemon asks for')
      const pages = () => Number(/^TCP:.* mem (\d+)/m.exec(readFileSync('/proc/net/sockstat', 'utf8'))![1])
      const before = pages()
      // Writes until nothing more fits, and never reads.
      const fill = `use IO::Socket::INET; my $l = IO::Socket::INET->new(Listen => 500, LocalAddr => '127.0.0.1:0') or die $@; my (@all, $n); for (1..200) { my $c = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $l->sockport) or last; push @all, $c, $l->accept; $c->blocking(0); 1 while $n < 2e9 && syswrite($c, 'x' x 65536) } print 'filled'; close STDOUT; sleep 1000`
      const process = await attacker.client.start({ id: 'tcp', argv: ['/usr/bin/perl', '-e', fill] })
      for await (const event of process) if (event.type === 'output') break
      // 256 MiB are the sandbox's; other tests of this machine use some, too.
      expect(pages() - before).toBeLessThan((128 * 1024 * 1024) / 4096)
      await attacker.client.signal('tcp', 'KILL', { group: true })
    })

    it('namespaces: none can be made, not even where the filter would let it', async (ctx) => {
      ctx.skip(
        cage.traits.ownKernel === true || cage.traits.daemonMounts === true,
        'only the filter keeps it',
      )
      expect((await attacker.sh('cat /proc/sys/user/max_user_namespaces')).out).toBe('0')
    })
  })

  it('no process changes what the kernel thinks of it when memory runs out', async (ctx) => {
    ctx.skip(cage.traits.ownKernel === true, 'its own kernel has no such killer')
    ctx.skip(cage.traits.writableProc === true, 'Podman has no word for a read-only /proc')
    for (const user of cage.traits.ids === 'account' ? ['1000'] : ['1000', '0']) {
      const { out } = await attacker.sh(
        'cat /proc/self/oom_score_adj; for n in 0 499 501 1000; do echo $n > /proc/self/oom_score_adj; done; cat /proc/self/oom_score_adj /proc/1/oom_score_adj',
        { user },
      )
      expect(out.split('\n')).toEqual(['500', '500', '500'])
    }
  })
}

/** As the account that the tests run as. */
function here(resource: SharedResource, most: number): number {
  return Number(execFileSync('perl', ['-e', GRAB, resource, String(most)], { encoding: 'utf8' }))
}
