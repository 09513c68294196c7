import { existsSync, readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { hasProgram } from '../launch/find-program.ts'
import { reasonToSkip } from '../testing/bench.ts'
import { type NetworkCage, openNetworkCage } from '../testing/network-cage.ts'
import type { RemoteSandbox } from '../testing/remote-sandbox.ts'

/**
 * Which addresses a sandbox with the network `open` reaches. All servers run in network namespaces of this test, so
 * no packet leaves the machine.
 */

const closed = {
  'private 10/8': '10.9.9.9',
  'private 172.16/12': '172.16.9.9',
  'private 192.168/16': '192.168.9.9',
  'shared 100.64/10': '100.64.9.9',
  'metadata, link-local': '169.254.169.254',
  'metadata of Azure': '168.63.129.16',
  benchmarking: '198.18.9.9',
  reserved: '240.9.9.9',
  'unique local IPv6': 'fd00:9::9',
  'metadata of AWS over IPv6': 'fd00:ec2::254',
  'site-local IPv6': 'fec0::9',
  '10/8 behind a NAT64': '64:ff9b::a09:909',
  'metadata behind a NAT64': '64:ff9b::a9fe:a9fe',
  '10/8 behind a local NAT64': '64:ff9b:1::a09:909',
  '10/8 in 6to4': '2002:a09:909::1',
  Teredo: '2001::9',
}
const own = {
  'the host’s first address': '192.168.77.2',
  'the host’s second address, a public one': '11.22.33.2',
  'the host’s IPv6 address': '2600:77::2',
  'another IPv6 address of the host': '2600:88::2',
}
const open = {
  'a public address': '12.34.56.78',
  'a public IPv6 address': '2600:99::9',
  'a public address behind a NAT64': '64:ff9b::c22:384e',
}
const RESOLVER = '10.9.9.53'

const tools = ['pasta', 'ip', 'nsenter', 'perl'].filter((name) => !hasProgram(name))
const reason =
  (await reasonToSkip()) ??
  (tools.length > 0 ? `needs ${tools.join(', ')}` : undefined) ??
  (existsSync('/dev/net/tun') ? undefined : 'needs /dev/net/tun')

let cage: NetworkCage
let box: RemoteSandbox

beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
beforeAll(async () => {
  if (reason !== undefined) return
  cage = await openNetworkCage({
    host: ['192.168.77.2/24', '11.22.33.2/24', '2600:77::2/64', '2600:88::2/64'],
    world: [RESOLVER, '10.8.8.8', ...Object.values(closed), ...Object.values(open)],
    nameserver: RESOLVER,
  })
  box = await cage.sandbox()
}, 120_000)
afterAll(async () => {
  await box?.[Symbol.asyncDispose]()
  await cage?.[Symbol.asyncDispose]()
})

/**
 * The answer from the address: `host …`, `world …`, or the error. `bound` binds the socket to the interface, which
 * bypasses routes.
 */
async function reach(address: string, how: Reach = {}): Promise<string> {
  return (await reachAll(address, [how]))[0]!
}

async function reachAll(address: string, ways: readonly Reach[], from = ways[0]?.from ?? box) {
  const scripts = ways.map((how, index) => `perl -e '${attempt(address, how)}' >/tmp/${index} 2>&1 &`)
  const files = ways.map((_, index) => `cat /tmp/${index}; echo`)
  return (await from.sh([...scripts, 'wait', ...files].join('\n'))).out.split('\n')
}

function attempt(address: string, { port = 8080, kind = 'tcp', bound = false }: Reach): string {
  return `use Socket qw(:all); $SIG{ALRM} = sub { print "timeout"; exit }; alarm ${bound ? 1 : 3};
    my ($e, $a) = getaddrinfo("${address}", "${port}", { flags => AI_NUMERICHOST, socktype => ${kind === 'tcp' ? 'SOCK_STREAM' : 'SOCK_DGRAM'} });
    die "no address: $e" if $e;
    socket(my $s, $a->{family}, $a->{socktype}, $a->{protocol}) or die $!;
    ${bound ? 'setsockopt($s, 1, 25, pack("Z*", "eth0")) or die "bind: $!";' : ''}
    connect($s, $a->{addr}) or do { print "failed: $!"; exit };
    ${kind === 'tcp' ? '' : 'send($s, "?", 0) or do { print "failed: $!"; exit };'}
    defined recv($s, my $got, 200, 0) or do { print "failed: $!"; exit };
    print $got eq "" ? "ended" : $got`
}

interface Reach {
  from?: RemoteSandbox
  port?: number
  kind?: 'tcp' | 'udp'
  bound?: boolean
}

const REFUSED = /^(failed|timeout)/

describe('network open', () => {
  it.each(Object.entries(open))('reaches %s', async (_, address) => {
    expect(await reach(address)).toBe(`world ${address}`)
    expect(await reach(address, { kind: 'udp' })).toBe(`world ${address}`)
  })

  it.each([...Object.entries(closed), ...Object.entries(own)])(
    'does not reach %s with any kind of socket, and fails at once',
    async (_, address) => {
      const ways = [{}, { kind: 'udp' }, { bound: true }, { bound: true, kind: 'udp' }] as const
      const [plain, ...others] = await reachAll(address, ways)
      expect(plain).toMatch(/^failed: (No route to host|Permission denied)/)
      for (const other of others) expect(other).toMatch(REFUSED)
      expect(others).toHaveLength(3)
    },
  )

  it('does not reach the host by loopback, gateway, IPv4-mapped or unspecified addresses', async () => {
    const ways = ['127.0.0.1', '::1', '192.0.0.1', '0.0.0.0', '::', '::ffff:192.168.77.2', '::ffff:10.9.9.9']
    for (const address of ways) {
      const answer = await reach(address)
      expect(answer, address).toMatch(REFUSED)
    }
    const linkLocal = await box.sh(
      `perl -MSocket=:all -e '$SIG{ALRM} = sub { print "timeout"; exit }; alarm 2; socket(my $s, AF_INET6, SOCK_STREAM, 0); connect($s, pack_sockaddr_in6(8080, inet_pton(AF_INET6, "fe80::1"), 2)) or do { print "failed: $!"; exit }; recv($s, my $got, 99, 0); print $got'`,
    )
    expect(linkLocal.out).toMatch(REFUSED)
  })

  it('resolves names through a resolver at a closed address, which answers DNS only', async () => {
    expect((await box.sh('cat /etc/resolv.conf')).out).toBe('nameserver 192.0.0.3')
    expect(await reach('192.0.0.3', { port: 53, kind: 'udp' })).toBe(`world ${RESOLVER}`)
    expect(await reach('192.0.0.3', { port: 8080 })).toMatch(REFUSED)
    expect(await reach('192.0.0.3', { port: 8080, kind: 'udp' })).toMatch(REFUSED)
    expect(await reach(RESOLVER, { port: 53, kind: 'udp' })).toMatch(REFUSED)
  })

  it('shows nothing of the host’s network', async () => {
    const seen = await box.sh(
      'cat /proc/net/dev /proc/net/route /proc/net/fib_trie /proc/net/if_inet6 /proc/net/arp',
    )
    for (const trace of ['192.168.77', '11.22.33', '26000077', '26000088'])
      expect(seen.out).not.toContain(trace)
  })

  it('no process inside can change the filter or the interface', async () => {
    for (const user of ['0', '1000']) {
      const tried = await box.sh(
        `perl -MSocket -e 'socket(my $s, AF_INET, SOCK_DGRAM, 0); my $r = pack("Z16 s x22", "eth0", 0); print ioctl($s, 0x8914, $r) ? "changed" : "$!"' # ${user}`,
      )
      expect(tried.out).toBe('Operation not permitted')
    }
  })

  it('blocks an address that the host gets later', async () => {
    expect(await reach('12.0.0.99')).not.toContain('host 12')
    cage.addAddress('12.0.0.99')
    cage.addAddress('2600:aa::99')
    await sleep(500)
    for (const address of ['12.0.0.99', '2600:aa::99']) {
      expect(await reach(address)).toMatch(/^failed/)
      expect(await reach(address, { bound: true, kind: 'udp' })).toMatch(REFUSED)
    }
    expect(await reach('12.34.56.78')).toBe('world 12.34.56.78')
  })

  it('opens listed networks, and the host’s own addresses only if listed as addresses', async () => {
    await using named = await cage.sandbox({
      allow: ['10.9.0.0/16', '192.168.77.2', '11.22.33.0/24', 'fd00:9::/32'],
    })
    expect(await reach('10.9.9.9', { from: named })).toBe('world 10.9.9.9')
    expect(await reach('fd00:9::9', { from: named })).toBe('world fd00:9::9')
    expect(await reach('192.168.77.2', { from: named })).toBe('host 192.168.77.2')
    expect(await reach('11.22.33.2', { from: named })).toMatch(REFUSED)
    expect(await reach('10.8.8.8', { from: named })).toMatch(REFUSED)
    expect(await reach('192.168.9.9', { from: named })).toMatch(REFUSED)
  })

  it('pasta runs as an id that owns no files, with capabilities in its own user namespace only', async () => {
    const children = readFileSync(`/proc/${box.pids.shim}/task/${box.pids.shim}/children`, 'utf8')
    const pids = children.trim().split(/\s+/)
    const pasta = pids.find((pid) => /^pas(t|st)/.test(readFileSync(`/proc/${pid}/comm`, 'utf8')))
    const status = readFileSync(`/proc/${pasta}/status`, 'utf8')
    const field = (name: string) => new RegExp(`^${name}:[ \\t]*(.*)$`, 'm').exec(status)?.[1]?.trim()
    const id = String(box.firstId + 65535)
    expect(field('Uid')?.split(/\s+/)).toEqual([id, id, id, id])
    expect(field('Gid')?.split(/\s+/)).toEqual([id, id, id, id])
    expect(field('Groups')).toBe('')
    expect([field('NoNewPrivs'), field('Seccomp')]).toEqual(['1', '2'])
    expect(field('CapAmb')).toBe('0000000000000000')
    // Capabilities are valid in pasta's own user namespace, which is neither the host's nor the sandbox's.
    const users = (pid: number | string) => readlinkSync(`/proc/${pid}/ns/user`)
    expect([users('self'), users(box.pids.runner)]).not.toContain(users(pasta!))
    expect(Number(field('CapEff') && BigInt(`0x${field('CapEff')}`) & 0b1110n)).toBe(0)
  })
})
