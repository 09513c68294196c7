/** Names and addresses in every spelling. */
import { python, sh, type Way } from './way.ts'

const byAddress = (port: number, address = '11.0.2.1') => ({
  event: { address, port, reason: ['no_rule', 'private_address'] },
  opens: true,
})
const byName = (host: string) => ({ event: { kind: 'dns', host, reason: 'no_rule' } })

export const addresses: readonly Way[] = [
  python(
    'denied-name',
    'a name that no rule allows',
    `tls(T + '.denied.example', 443, T + '.denied.example')`,
    {
      ...byName('{T}.denied.example'),
      opens: true,
    },
  ),
  python(
    'trailing-dot',
    'a denied name with a trailing dot',
    `tcp('denied.example.', 7001)`,
    byName('denied.example'),
  ),
  python(
    'upper-case',
    'a denied name in upper case',
    `tcp('DENIED.Example', 7002)`,
    byName('denied.example'),
  ),
  python(
    'lookalike',
    'an allowed name with a Cyrillic letter',
    `tcp('xn--llowed-2nf.example', 7003)`,
    byName('xn--llowed-2nf.example'),
  ),
  python(
    'longer-name',
    'a name that ends with an allowed one',
    `tcp('notallowed.example', 7004)`,
    byName('notallowed.example'),
  ),
  python(
    'no-dot-wildcard',
    'a name that ends with a wildcard’s suffix',
    `tcp('evilwild.example', 7005)`,
    byName('evilwild.example'),
  ),
  python('wildcard-apex', 'the parent of a wildcard', `tcp('wild.example', 7006)`, byName('wild.example')),
  python(
    'allowed-as-label',
    'an allowed name as a label of a denied one',
    `tcp('allowed.example.denied.example', 7007)`,
    byName('allowed.example.denied.example'),
  ),
  python('plain-address', 'an address without a name', `tcp('11.0.2.1', 7010)`, byAddress(7010)),
  python('decimal-address', 'an address as one number', `tcp('184549889', 7011)`, byAddress(7011)),
  python('octal-address', 'an address in octal', `tcp('013.0.02.01', 7012)`, byAddress(7012)),
  python('hex-address', 'an address in hexadecimal', `tcp('0x0b.0x0.0x2.0x1', 7013)`, byAddress(7013)),
  python('short-address', 'an address of two parts', `tcp('11.513', 7014)`, byAddress(7014)),
  python('mapped-address', 'an IPv4-mapped IPv6 address', `tcp('::ffff:11.0.2.1', 7015)`, byAddress(7015)),
  python('v6-address', 'an IPv6 address', `tcp('2600:11::2:1', 7016)`, byAddress(7016, '2600:11::2:1')),
  python('nat64-address', 'an IPv4 address behind NAT64', `tcp('64:ff9b::11.0.2.1', 7017)`, {
    ...byAddress(7017, '64:ff9b::b00:201'),
    opens: false,
  }),
  python('6to4-address', 'an IPv4 address in a 6to4 address', `tcp('2002:b00:201::1', 7018)`, {
    ...byAddress(7018, '2002:b00:201::1'),
    opens: false,
  }),
  python('nat64-local', 'an IPv4 address behind a local NAT64', `tcp('64:ff9b:1::11.0.2.1', 7060)`, {
    ...byAddress(7060, '64:ff9b:1::b00:201'),
    opens: false,
  }),
  python('teredo-address', 'an IPv4 address in a Teredo address', `tcp('2001:0:b00:201::1', 7061)`, {
    ...byAddress(7061, '2001:0:b00:201::1'),
    opens: false,
  }),
  python('other-port', 'an allowed name at a port that no rule names', `tcp('allowed.example', 7020)`, {
    event: { port: 7020, reason: ['no_rule', 'address_mismatch'] },
  }),
  python('ssh', 'SSH to an allowed name', `tcp('allowed.example', 22)`, { event: { port: 22 } }),
  python('smtp', 'SMTP to an allowed name', `tcp('allowed.example', 25)`, { event: { port: 25 } }),
  sh('curl-number', 'curl with a number as the host', `curl -s -m 3 http://184549889:8080/$T`, {
    event: { address: '11.0.2.1', port: 8080 },
    opens: true,
  }),
  sh(
    'perl',
    'a socket of another language',
    `perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(PeerAddr => "11.0.2.1:7022", Timeout => 3) or die; print $s $ARGV[0]; print scalar <$s>' $T`,
    byAddress(7022),
  ),
  sh(
    'node',
    'a socket of Node',
    `node -e 'const s = require("net").connect(7023, "11.0.2.1", () => s.end(process.argv[1])); s.on("error", () => {}); setTimeout(() => process.exit(), 1500)' $T`,
    byAddress(7023),
  ),
  python(
    'proxy-variable',
    'a proxy at an address',
    `import os; os.environ['http_proxy'] = 'http://11.0.3.1:7024'; urllib.request.urlopen('http://allowed.example/' + T, timeout=3)`,
    byAddress(7024, '11.0.3.1'),
  ),
  python(
    'proxy-name',
    'a proxy at a denied name',
    `import os; os.environ['http_proxy'] = 'http://proxy.example:3128'; urllib.request.urlopen('http://denied.example/' + T, timeout=3)`,
    byName('proxy.example'),
  ),
  python(
    'unknown-service',
    'a service that the policy does not name',
    `tcp('model.sandkasten.internal', 7025)`,
    {
      event: { kind: 'dns', host: 'model.sandkasten.internal' },
    },
  ),
]
