/** TLS: what the first bytes say, and what they hide. */
import { python, type Way } from './way.ts'

const wild = '{T}.wild.example'
const denied = '{T}.denied.example'
/** The gateway may ask for a name below an allowed one. */
const elsewhere = /^11\.0\.2\.1:/

export const tls: readonly Way[] = [
  python(
    'sni-elsewhere',
    'an allowed server name at another address',
    `tls('11.0.2.1', 443, T + '.wild.example')`,
    {
      at: elsewhere,
      event: { host: wild, address: '11.0.2.1', reason: 'address_mismatch' },
      opens: true,
    },
  ),
  python(
    'sni-denied',
    'a denied server name at an allowed address',
    `tls('allowed.example', 443, T + '.denied.example')`,
    {
      event: { host: denied, port: 443, reason: ['sni_not_allowed', 'no_rule'] },
      opens: true,
    },
  ),
  python('no-sni', 'no server name', `tls('11.0.1.1', 443, None, get())`, {
    event: { port: 443, reason: 'no_sni' },
    opens: true,
  }),
  python(
    'address-sni',
    'an address as the server name',
    `tcp('11.0.1.1', 443, records(hello(server_names(b'11.0.1.1'))))`,
    {
      event: { port: 443, reason: ['no_sni', 'sni_not_allowed', 'protocol'] },
      opens: true,
    },
  ),
  python(
    'two-server-names',
    'an allowed and a denied server name',
    `tcp('allowed.example', 443, records(hello(server_names(b'allowed.example', b'denied.example'))))`,
    { event: { port: 443, reason: ['protocol', 'no_sni', 'sni_not_allowed'] } },
  ),
  python(
    'two-extensions',
    'the extension of the server name twice',
    `tcp('allowed.example', 443, records(hello(server_names(b'allowed.example'), server_names(b'denied.example'))))`,
    { event: { port: 443, reason: ['protocol', 'no_sni', 'sni_not_allowed'] } },
  ),
  python(
    'nul-in-server-name',
    'a server name with a NUL byte',
    `tcp('allowed.example', 443, records(hello(server_names(b'allowed.example\\0.denied.example'))))`,
    { event: { port: 443, reason: ['protocol', 'no_sni', 'sni_not_allowed'] } },
  ),
  python(
    'split-hello',
    'a denied server name in several records',
    `tcp('allowed.example', 443, records(hello(server_names((T + '.denied.example').encode())), 64))`,
    { event: { host: denied, reason: ['sni_not_allowed', 'no_rule'] } },
  ),
  python(
    'slow-hello',
    'a denied server name, byte by byte',
    `stream = tcp('allowed.example', 443, b'', keep=True)
whole = records(hello(server_names((T + '.denied.example').encode())))
parts = [whole[at:at + 1] for at in range(44)] + [whole[44:84]] + [whole[at:at + 1] for at in range(84, len(whole))]
for part in parts:
    stream.send(part); time.sleep(0.002)
read(stream)`,
    { event: { host: denied, reason: ['sni_not_allowed', 'no_rule'] } },
  ),
  python(
    'encrypted-hello',
    'a hidden server name behind a denied outer one',
    `tcp('allowed.example', 443, records(hello(server_names((T + '.denied.example').encode()), extension(0xfe0d, b'\\0\\0\\1\\0\\1\\7\\0\\x20' + b'e' * 32 + b'\\0\\x20' + b'p' * 32))))`,
    { event: { host: denied, reason: ['sni_not_allowed', 'no_rule'] } },
  ),
  ...[
    ['upper-case', 'in upper case', `b'ALLOWED.EXAMPLE'`],
    ['trailing-dot', 'with a trailing dot', `b'allowed.example.'`],
    ['empty', 'that is empty', `b''`],
    ['wildcard', 'that is the wildcard itself', `b'*.wild.example'`],
    ['unicode', 'in UTF-8', `'allowed。example'.encode()`],
    ['long', 'that is longer than a name may be', `b'a.' * 150 + b'wild.example'`],
    ['spaces', 'with spaces around it', `b' allowed.example '`],
  ].map(([name, how, text]) =>
    python(
      `sni-${name}`,
      `a server name ${how}, at a denied address`,
      `tcp('11.0.2.1', 443, records(hello(server_names(${text}))))`,
      {
        at: elsewhere,
        event: { address: '11.0.2.1', port: 443, reason: ['address_mismatch', 'no_sni', 'protocol'] },
        opens: true,
      },
    ),
  ),
  python(
    'early-data',
    'data behind a denied server name, before an answer',
    `tcp('allowed.example', 443, records(hello(server_names((T + '.denied.example').encode()), extension(42, b''))) + b'\\x17\\3\\3\\0\\x10' + TOKEN.ljust(16))`,
    { event: { host: denied, reason: ['sni_not_allowed', 'no_rule'] } },
  ),
  python(
    'alert-first',
    'another record before the ClientHello',
    `tcp('allowed.example', 443, b'\\x15\\3\\1\\0\\2\\1\\0' + records(hello(server_names(b'allowed.example'))))`,
    { event: { port: 443, reason: 'protocol' } },
  ),
  python(
    'alert-within',
    'another record within the ClientHello',
    `parts = records(hello(server_names(b'allowed.example')), 64)
tcp('allowed.example', 443, parts[:69] + b'\\x15\\3\\1\\0\\2\\1\\0' + parts[69:])`,
    { event: { port: 443, reason: 'protocol' } },
  ),
  python(
    'empty-records',
    'empty records before the ClientHello',
    `tcp('allowed.example', 443, b'\\x16\\3\\1\\0\\0' * 40 + records(hello(server_names((T + '.denied.example').encode()))))`,
    { event: { port: 443, reason: ['protocol', 'sni_not_allowed'] } },
  ),
  python(
    'huge-hello',
    'a server name behind 60 KiB',
    `tcp('allowed.example', 443, records(hello(extension(0x5555, b'x' * 60000), server_names((T + '.denied.example').encode()))))`,
    { event: { port: 443, reason: ['protocol', 'sni_not_allowed', 'no_rule'] } },
  ),
  python(
    'second-hello',
    'a denied ClientHello behind an allowed one, at a denied address',
    `tcp('11.0.2.1', 443, records(hello(server_names(b'allowed.example')) + hello(server_names((T + '.denied.example').encode()))))`,
    { event: { address: '11.0.2.1', port: 443, reason: ['address_mismatch', 'protocol'] } },
  ),
  python('not-tls', 'no TLS at the port of TLS', `tcp('allowed.example', 443, TOKEN + b'\\r\\n')`, {
    event: { port: 443, reason: ['protocol', 'no_sni'] },
  }),
  python('http-on-443', 'plain HTTP at the port of TLS', `tcp('allowed.example', 443, get())`, {
    event: { port: 443, reason: ['protocol', 'no_sni'] },
  }),
  python(
    'old-hello',
    'a ClientHello of SSL 2',
    `tcp('allowed.example', 443, b'\\x80\\x2e\\x01\\x03\\x01\\0\\x15\\0\\0\\0\\x10' + TOKEN.ljust(60, b'.'))`,
    {
      event: { port: 443, reason: ['protocol', 'no_sni'] },
    },
  ),
  python(
    'tls-elsewhere',
    'TLS at a port that no rule names',
    `tls('allowed.example', 8443, 'allowed.example')`,
    { event: { port: 8443 } },
  ),
  python(
    'websocket-tls',
    'a WebSocket to a denied name',
    `tls(T + '.denied.example', 443, T + '.denied.example', get(host=T + '.denied.example', more='Upgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\nSec-WebSocket-Version: 13\\r\\n'))`,
    { event: { kind: 'dns', host: denied } },
  ),
  python(
    'fronting',
    'a denied Host inside TLS to a shared address',
    `tls('front.wild.example', 443, 'front.wild.example', get(host='denied-front.example'))`,
    { policy: 'brokered', event: { port: 443, reason: 'host_mismatch' } },
  ),
  python(
    'fronting-second',
    'a denied Host in the second request inside TLS',
    `tls('front.wild.example', 443, 'front.wild.example', get('/first', 'front.wild.example') + get(host='denied-front.example'))`,
    { policy: 'brokered', event: { port: 443, reason: 'host_mismatch' } },
  ),
  python(
    'coalescing',
    'a denied authority on an open HTTP/2 connection',
    `tls('front.wild.example', 443, 'front.wild.example', h2_requests('front.wild.example', 'denied-front.example'), ['h2'])
time.sleep(0.3)`,
    { policy: 'brokered', event: { port: 443, reason: 'host_mismatch' } },
  ),
  python(
    'absolute-form-tls',
    'a denied URL as the request’s target inside TLS',
    `tls('front.wild.example', 443, 'front.wild.example', get('https://denied-front.example/' + T, 'front.wild.example'))`,
    {
      policy: 'brokered',
      event: { kind: 'http', port: 443, reason: ['host_mismatch', 'not_http', 'protocol'] },
    },
  ),
  ...[
    [
      'host',
      'a denied Host beside an allowed authority',
      `[(b':authority', b'front.wild.example'), (b'host', b'denied-front.example')]`,
    ],
    ['host-only', 'a denied Host and no authority', `[(b'host', b'denied-front.example')]`],
    ['port', 'another port in the authority', `[(b':authority', b'front.wild.example:80')]`],
    ['dot', 'an authority with a trailing dot', `[(b':authority', b'front.wild.example.')]`],
  ].map(([name, tries, fields]) =>
    python(
      `h2-${name}`,
      `${tries} in HTTP/2`,
      `tls('front.wild.example', 443, 'front.wild.example', h2_start() + h2_request(1, ${fields}), ['h2'])
time.sleep(0.3)`,
      { policy: 'brokered', event: { kind: 'http', port: 443, reason: 'host_mismatch' } },
    ),
  ),
  python(
    'h2-smuggling',
    'a request in a header of HTTP/2',
    `fields = [(b':authority', b'front.wild.example'), (b'x-a', b'1\\r\\n\\r\\n' + get(host='denied-front.example').encode())]
tls('front.wild.example', 443, 'front.wild.example', h2_start() + h2_request(1, fields), ['h2'])
time.sleep(0.3)`,
    { policy: 'brokered', event: { unseen: 'HTTP/2 ends the stream: the header is malformed' } },
  ),
  ...['h2c', 'TLS/1.2', 'websocket, h2c'].map((to) =>
    python(
      `upgrade-tls-${to.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}`,
      `an upgrade to ${to} inside TLS`,
      `tls('front.wild.example', 443, 'front.wild.example', get(host='front.wild.example', more='Connection: Upgrade\\r\\nUpgrade: ${to}\\r\\n'))`,
      { policy: 'brokered', event: { port: 443, reason: 'upgrade_refused' } },
    ),
  ),
  python(
    'connect-tls',
    'CONNECT inside TLS',
    `stream = tls('front.wild.example', 443, 'front.wild.example', 'CONNECT denied.example:443 HTTP/1.1\\r\\nHost: front.wild.example\\r\\n\\r\\n')
stream.sendall(TOKEN); read(stream)`,
    { policy: 'brokered', event: { port: 443, reason: ['connect_refused_by_policy', 'host_mismatch'] } },
  ),
  python(
    'smuggling-tls',
    'a second request behind two lengths inside TLS',
    `tls('front.wild.example', 443, 'front.wild.example', 'POST / HTTP/1.1\\r\\nHost: front.wild.example\\r\\nContent-Length: 6\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n' + get(host='denied-front.example'))`,
    {
      policy: 'brokered',
      event: { kind: 'http', port: 443, reason: ['not_http', 'protocol', 'host_mismatch'] },
    },
  ),
]
