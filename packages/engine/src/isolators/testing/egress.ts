/** What every isolator promises about a network with a policy (`protocol/egress.md`). */
import { mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { GatewaySocket } from '../isolator.ts'
import { type TestGateway, testGateway } from './test-gateway.ts'

export interface EgressSandbox {
  sh(script: string): Promise<{ readonly out: string; readonly code: number | undefined }>
  /** Ends it and resolves when nothing of it is left. */
  end(): Promise<void>
}

export interface EgressCage {
  /** A folder on the host for the gateway's sockets. */
  readonly folder: string
  start(policy: GatewaySocket): Promise<EgressSandbox>
  close(): Promise<void>
}

/** Skips all tests if there is a reason. `gateway` is the id of the gateway's user. */
export function testEgress(
  name: string,
  open: () => Promise<EgressCage>,
  {
    reason,
    gateway: id,
    silent = false,
  }: {
    readonly reason?: string | undefined
    readonly gateway?: number | undefined
    /** Its kernel does not tell a UDP socket that a packet was rejected. */
    readonly silent?: boolean
  },
): void {
  describe.skipIf(reason !== undefined)(
    `${name}: network with a policy${reason ? ` (${reason})` : ''}`,
    () => {
      let cage: EgressCage
      let box: EgressSandbox
      let gateway: TestGateway
      const policy = (file: string): GatewaySocket => ({
        socket: join(cage.folder, file),
        ...(id === undefined ? {} : { owner: { uid: id, gid: id } }),
      })
      const perl = async (script: string, from = box) => (await from.sh(`perl -e '${script}' 2>&1`)).out

      beforeAll(async () => {
        cage = await open()
        mkdirSync(cage.folder, { recursive: true, mode: 0o711 })
        box = await cage.start(policy('box.sock'))
        gateway = await testGateway(policy('box.sock').socket, id)
      }, 120_000)
      afterAll(async () => {
        await gateway?.[Symbol.asyncDispose]()
        await box?.end()
        await cage?.close()
      }, 60_000)

      it('hands its sockets to the gateway’s user only', () => {
        expect(gateway.sockets).toEqual(['tcp4', 'tcp6', 'dns', 'refused'])
        const { mode, uid } = statSync(policy('box.sock').socket)
        expect([mode & 0o777, uid]).toEqual([0o600, id ?? process.getuid?.()])
      })

      it.each([
        ['203.0.113.7', 443],
        ['8.8.8.8', 53],
        ['10.1.2.3', 22],
        ['169.254.169.254', 80],
        ['192.0.0.3', 53],
        ['192.0.0.1', 1],
        ['172.17.0.1', 2375],
        ['2001:db8::7', 443],
        ['fd00:ec2::254', 80],
      ])('TCP to %s arrives at the gateway with its destination', async (address, port) => {
        expect(await perl(connect(address, port))).toBe(`gateway ${address} ${port}`)
        await gateway.sees(`tcp ${address} ${port}`)
      })

      it('an IPv4-mapped address arrives as IPv4', async () => {
        expect(await perl(connect('::ffff:203.0.113.9', 8443))).toBe('gateway 203.0.113.9 8443')
      })

      it('DNS arrives at the resolver of /etc/resolv.conf', async () => {
        expect((await box.sh('cat /etc/resolv.conf')).out).toBe('nameserver 192.0.0.3')
        expect(await perl(send('192.0.0.3', 53, 'SOCK_DGRAM', 'hello'))).toBe('dns 5')
        await gateway.sees('dns 5')
      })

      it.each([
        ['UDP', '203.0.113.8', 17],
        ['DNS to another resolver', '8.8.4.4', 17, 53],
        ['another port of the resolver', '192.0.0.3', 17, 5353],
        ['UDP to a private address', '10.0.0.9', 17],
        ['UDP to metadata', '169.254.169.254', 17],
        ['IPv6 UDP', '2001:db8::9', 17],
        ['multicast', '224.0.0.251', 17, 5353],
        ['broadcast', '255.255.255.255', 17],
      ])('%s is rejected at once and recorded', async (_, address, protocol, port = 443) => {
        const said = await perl(send(address, port, 'SOCK_DGRAM', 'x', 2))
        expect(said).toMatch(silent ? REFUSED : /^failed/)
        await gateway.sees(`refused ${protocol} ${address}`)
      })

      it('pings, raw sockets and IPv6 multicast get nowhere', async () => {
        const ways = [
          ['AF_INET, SOCK_DGRAM, 1', '203.0.113.10'],
          ['AF_INET, SOCK_RAW, 1', '203.0.113.10'],
          ['AF_INET, SOCK_RAW, 255', '203.0.113.10'],
          ['AF_INET6, SOCK_DGRAM, 58', '2001:db8::10'],
          ['AF_INET6, SOCK_RAW, 58', '2001:db8::10'],
          ['AF_INET, SOCK_STREAM, 132', '203.0.113.10'],
          ['17, SOCK_RAW, 768', '203.0.113.10'],
          // The kernel has no route for it.
          ['AF_INET6, SOCK_DGRAM, 17', 'ff02::fb'],
        ]
        for (const [kind, address] of ways) expect(await perl(echo(kind!, address!)), kind).toMatch(REFUSED)
      })

      it('loopback works as without a network', async () => {
        for (const [address, port] of [
          ['127.0.0.1', 80],
          ['127.0.0.1', 53],
          ['127.9.9.9', 8080],
          ['::1', 443],
          ['192.0.0.2', 8081],
        ] as const)
          expect(await perl(selfTcp(address, port)), address).toBe('itself')
        expect(await perl(selfUdp('127.0.0.1', 53))).toBe('itself')
        expect(await perl(connect('127.0.0.1', 9))).toMatch(/refused/)
        const before = gateway.seen.filter((line) => /^tcp (127|::1)/.test(line))
        expect(before).toEqual([])
      })

      it('a program that listens on an outside address does not get connections to it', async () => {
        expect(await perl(selfTcp('198.51.100.99', 443))).toMatch(/^(gateway 198\.51\.100\.99 443|failed)/)
      })

      it('connections wait while no gateway runs, and a new gateway gets them', async () => {
        await using other = await cage.start(policy('waits.sock')).then((sandbox) => ({
          ...sandbox,
          [Symbol.asyncDispose]: () => sandbox.end(),
        }))
        const asked = perl(connect('203.0.113.20', 443, 20), other)
        await sleep(300)
        {
          await using first = await testGateway(policy('waits.sock').socket, id)
          expect(await asked).toBe('gateway 203.0.113.20 443')
          expect(first.seen).toEqual(['tcp 203.0.113.20 443'])
        }
        expect(await perl(connect('203.0.113.21', 443, 1), other)).toBe('timeout')
        await using second = await testGateway(policy('waits.sock').socket, id)
        expect(await perl(connect('203.0.113.22', 443), other)).toBe('gateway 203.0.113.22 443')
        await second.sees('tcp 203.0.113.22 443')
      })

      it('clients that do not read or do speak do not disturb', async () => {
        const { socket } = policy('box.sock')
        const { connect: open } = await import('node:net')
        const silent = Array.from({ length: 20 }, () =>
          open(socket)
            .on('error', () => {})
            .pause(),
        )
        for (const one of silent) one.write('x'.repeat(100_000))
        await sleep(200)
        expect((await box.sh('echo alive')).out).toBe('alive')
        for (const one of silent) one.destroy()
        await using another = await testGateway(socket, id)
        expect(another.sockets).toContain('tcp4')
      })

      it('the gateway learns the end, and the socket is gone', async () => {
        const short = await cage.start(policy('short.sock'))
        await using seeing = await testGateway(policy('short.sock').socket, id)
        await short.end()
        await seeing.ended
        expect(statSync(policy('short.sock').socket, { throwIfNoEntry: false })).toBeUndefined()
      })

      it('at most 50 rejected packets are recorded in a second', async () => {
        await perl(`use Socket qw(:all); socket(my $s, AF_INET, SOCK_DGRAM, 0);
        send($s, "x", 0, pack_sockaddr_in(9, inet_aton("198.51.100.50"))) for 1..5000`)
        await sleep(300)
        const seen = gateway.seen.filter((line) => line === 'refused 17 198.51.100.50').length
        expect(seen).toBeGreaterThan(0)
        expect(seen).toBeLessThanOrEqual(200)
      })
    },
  )
}

const REFUSED = /^(failed|no socket|timeout)/
const ANY = (seconds: number) =>
  `use Socket qw(:all); $SIG{ALRM} = sub { print "timeout"; exit }; alarm ${seconds};`

/** The answer from the address, or the error. */
export function connect(address: string, port: number, seconds = 3): string {
  return send(address, port, 'SOCK_STREAM', '', seconds)
}

export function send(address: string, port: number, kind: string, text: string, seconds = 3): string {
  return `${ANY(seconds)}
    my ($e, $a) = getaddrinfo("${address}", "${port}", { flags => AI_NUMERICHOST, socktype => ${kind} });
    die "no address: $e" if $e;
    socket(my $s, $a->{family}, $a->{socktype}, $a->{protocol}) or die $!;
    setsockopt($s, SOL_SOCKET, SO_BROADCAST, 1);
    connect($s, $a->{addr}) or do { print "failed: $!"; exit };
    ${text === '' ? '' : `send($s, "${text}", 0) or do { print "failed: $!"; exit };`}
    defined recv($s, my $got, 200, 0) or do { print "failed: $!"; exit };
    print $got eq "" ? "failed: ended" : $got`
}

/** An ICMP echo request through some kind of socket. */
function echo(kind: string, address: string): string {
  const isV6 = address.includes(':')
  const to = isV6
    ? `pack_sockaddr_in6(0, inet_pton(AF_INET6, "${address}"))`
    : `pack_sockaddr_in(0, inet_aton("${address}"))`
  return `${ANY(1)}
    socket(my $s, ${kind}) or do { print "no socket: $!"; exit };
    send($s, pack("C C n n n", ${isV6 ? 128 : 8}, 0, ${isV6 ? 0 : 0xf7ff}, 0, 0), 0, ${to}) or do { print "failed: $!"; exit };
    recv($s, my $got, 200, 0); print "answered"`
}

/** A server and its client in the sandbox. */
function selfTcp(address: string, port: number): string {
  return `${ANY(5)}
    my ($e, $a) = getaddrinfo("${address}", "${port}", { flags => AI_NUMERICHOST, socktype => SOCK_STREAM });
    socket(my $l, $a->{family}, SOCK_STREAM, 0) or die $!; setsockopt($l, SOL_SOCKET, SO_REUSEADDR, 1);
    bind($l, $a->{addr}) or do { print "failed to bind: $!"; exit }; listen($l, 5);
    if (fork() == 0) { accept(my $c, $l); send($c, "itself", 0); exit }
    socket(my $s, $a->{family}, SOCK_STREAM, 0); connect($s, $a->{addr}) or do { print "failed: $!"; exit };
    recv($s, my $got, 200, 0); print $got`
}

function selfUdp(address: string, port: number): string {
  return `${ANY(5)}
    my $a = pack_sockaddr_in(${port}, inet_aton("${address}"));
    socket(my $l, AF_INET, SOCK_DGRAM, 0); bind($l, $a) or do { print "failed to bind: $!"; exit };
    socket(my $s, AF_INET, SOCK_DGRAM, 0); send($s, "itself", 0, $a) or do { print "failed: $!"; exit };
    recv($l, my $got, 200, 0); print $got`
}
