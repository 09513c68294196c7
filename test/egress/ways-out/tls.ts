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
