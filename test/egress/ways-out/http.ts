/** HTTP on port 80: whose request it is, and what follows on the same connection. */
import { python, sh, type Way } from './way.ts'

const denied = '{T}.denied.example'
const badHost = ['host_mismatch', 'address_mismatch', 'no_rule']

export const http: readonly Way[] = [
  python(
    'host-denied',
    'a denied Host at an allowed address',
    `tcp('allowed.example', 80, get(host=T + '.denied.example'))`,
    {
      event: { host: denied, port: 80, reason: badHost },
      opens: true,
    },
  ),
  python(
    'host-elsewhere',
    'an allowed Host at another address',
    `tcp('11.0.2.1', 80, get(host=T + '.wild.example'))`,
    {
      // The gateway may ask for a name below an allowed one.
      at: /^11\.0\.2\.1:/,
      event: { host: '{T}.wild.example', address: '11.0.2.1', reason: 'address_mismatch' },
      opens: true,
    },
  ),
  python(
    'absolute-form',
    'a denied URL as the request’s target',
    `tcp('allowed.example', 80, get('http://' + T + '.denied.example/' + T))`,
    {
      event: { port: 80 },
    },
  ),
  python(
    'connect',
    'CONNECT through an allowed host',
    `stream = tcp('allowed.example', 80, 'CONNECT denied.example:443 HTTP/1.1\\r\\nHost: allowed.example\\r\\n\\r\\n', keep=True)
read(stream); stream.sendall(TOKEN); read(stream)`,
    { event: { port: 80, reason: ['connect_refused_by_policy', 'host_mismatch', 'no_rule'] } },
  ),
  python(
    'connect-allowed',
    'CONNECT to an allowed name, which hides what follows',
    `stream = tcp('allowed.example', 80, 'CONNECT allowed.example:80 HTTP/1.1\\r\\nHost: allowed.example\\r\\n\\r\\n', keep=True)
read(stream); stream.sendall(TOKEN); read(stream)`,
    { event: { port: 80, reason: 'connect_refused_by_policy' } },
  ),
  python(
    'second-host',
    'a denied Host in the second request of a connection',
    `stream = tcp('allowed.example', 80, get('/first'), keep=True)
read(stream); stream.sendall(get(host=T + '.denied.example').encode()); read(stream)`,
    { event: { host: denied, port: 80, reason: badHost } },
  ),
  python(
    'pipelined',
    'a denied Host in a pipelined request',
    `tcp('allowed.example', 80, get('/first') + get(host=T + '.denied.example')); time.sleep(0.3)`,
    { event: { host: denied, port: 80, reason: badHost } },
  ),
  python(
    'smuggling-cl-te',
    'a second request behind two lengths',
    `tcp('allowed.example', 80, 'POST / HTTP/1.1\\r\\nHost: allowed.example\\r\\nContent-Length: 6\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n' + get(host=T + '.denied.example'))`,
    { event: { port: 80 } },
  ),
  python(
    'smuggling-two-lengths',
    'a second request behind two values of Content-Length',
    `tcp('allowed.example', 80, 'POST / HTTP/1.1\\r\\nHost: allowed.example\\r\\nContent-Length: 0\\r\\nContent-Length: 200\\r\\n\\r\\n' + get(host=T + '.denied.example'))`,
    { event: { port: 80 } },
  ),
  python(
    'smuggling-encoding',
    'a second request behind an unknown transfer coding',
    `tcp('allowed.example', 80, 'POST / HTTP/1.1\\r\\nHost: allowed.example\\r\\nTransfer-Encoding: xchunked\\r\\nContent-Length: 0\\r\\n\\r\\n' + get(host=T + '.denied.example'))`,
    { event: { port: 80 } },
  ),
  python(
    'no-host',
    'HTTP/1.0 without Host',
    `tcp('allowed.example', 80, 'GET /' + T + ' HTTP/1.0\\r\\n\\r\\n')`,
    {
      event: { port: 80, reason: ['host_mismatch', 'not_http', 'protocol', 'no_rule'] },
      opens: true,
    },
  ),
  python(
    'two-hosts',
    'two Host headers',
    `tcp('allowed.example', 80, get(more='Host: denied.example\\r\\n'))`,
    {
      event: { port: 80, reason: ['host_mismatch', 'not_http', 'protocol'] },
    },
  ),
  python(
    'host-list',
    'two names in one Host header',
    `tcp('allowed.example', 80, get(host='allowed.example, denied.example'))`,
    {
      event: { port: 80 },
    },
  ),
  python(
    'host-userinfo',
    'a Host with a user',
    `tcp('allowed.example', 80, get(host='allowed.example@denied.example'))`,
    {
      event: { port: 80 },
    },
  ),
  python(
    'host-port',
    'a denied Host with a port',
    `tcp('allowed.example', 80, get(host=T + '.denied.example:80'))`,
    {
      event: { host: denied, port: 80, reason: badHost },
    },
  ),
  python(
    'host-space',
    'a space before the colon of Host',
    `tcp('allowed.example', 80, 'GET /' + T + ' HTTP/1.1\\r\\nHost : allowed.example\\r\\nHost: denied.example\\r\\n\\r\\n')`,
    {
      event: { port: 80 },
    },
  ),
  python(
    'host-folded',
    'a Host header on two lines',
    `tcp('allowed.example', 80, 'GET /' + T + ' HTTP/1.1\\r\\nX: 1\\r\\n Host: allowed.example\\r\\nHost: denied.example\\r\\n\\r\\n')`,
    {
      event: { port: 80 },
    },
  ),
  python(
    'bare-newlines',
    'lines that end without CR',
    `tcp('allowed.example', 80, 'GET /' + T + ' HTTP/1.1\\nHost: ' + T + '.denied.example\\n\\n')`,
    {
      event: { port: 80 },
    },
  ),
  python(
    'no-version',
    'HTTP/0.9',
    `tcp('allowed.example', 80, 'GET http://' + T + '.denied.example/' + T + '\\r\\n\\r\\n')`,
    { event: { port: 80, reason: 'not_http' } },
  ),
  python(
    'absolute-port',
    'another port in the request’s target',
    `tcp('allowed.example', 80, get('http://allowed.example:22/' + T))`,
    { event: { host: undefined, port: 80, reason: 'host_mismatch' } },
  ),
  python(
    'absolute-user',
    'a user in the request’s target',
    `tcp('allowed.example', 80, get('http://allowed.example@denied.example/' + T))`,
    { event: { port: 80, reason: 'host_mismatch' } },
  ),
  python(
    'connect-lower-case',
    'CONNECT in lower case',
    `stream = tcp('allowed.example', 80, 'connect denied.example:443 HTTP/1.1\\r\\nHost: allowed.example\\r\\n\\r\\n', keep=True)
read(stream); stream.sendall(TOKEN); read(stream)`,
    { event: { port: 80, reason: ['not_http', 'host_mismatch', 'connect_refused_by_policy'] } },
  ),
  python(
    'asterisk',
    'OPTIONS of the whole server for a denied Host',
    `tcp('allowed.example', 80, 'OPTIONS * HTTP/1.1\\r\\nHost: ' + T + '.denied.example\\r\\n\\r\\n')`,
    { event: { host: denied, port: 80, reason: badHost } },
  ),
  python(
    'host-unicode',
    'a Host in UTF-8',
    `tcp('allowed.example', 80, ('GET /' + T + ' HTTP/1.1\\r\\nHost: allowed。example\\r\\n\\r\\n').encode())`,
    { event: { port: 80, reason: ['host_mismatch', 'not_http'] } },
  ),
  python(
    'host-address-number',
    'a Host that is the address as one number',
    `tcp('11.0.2.1', 80, get(host='184549889'))`,
    { event: { address: '11.0.2.1', port: 80, reason: ['host_mismatch', 'no_rule'] }, opens: true },
  ),
  python(
    'upgrade-list',
    'an upgrade to a WebSocket or to HTTP/2',
    `tcp('allowed.example', 80, get(more='Connection: Upgrade\\r\\nUpgrade: websocket, h2c\\r\\n'))`,
    { event: { port: 80, reason: 'upgrade_refused' } },
  ),
  python(
    'smuggling-chunks',
    'a second request behind a chunk whose size overflows',
    `tcp('allowed.example', 80, 'POST / HTTP/1.1\\r\\nHost: allowed.example\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n10000000000000000\\r\\n' + get(host=T + '.denied.example'))`,
    { event: { unseen: 'an allowed request, whose body is malformed' } },
  ),
  python(
    'after-upgrade',
    'a denied request behind an upgrade that the server did not make',
    `stream = tcp('allowed.example', 80, get('/first', more='Connection: Upgrade\\r\\nUpgrade: websocket\\r\\n'), keep=True)
read(stream); stream.sendall(get(host=T + '.denied.example').encode()); read(stream)`,
    { event: { unseen: 'the server ends the connection' } },
  ),
  python('address-host', 'an address as Host', `tcp('11.0.2.1', 80, get(host='11.0.2.1'))`, {
    event: { address: '11.0.2.1', port: 80 },
    opens: true,
  }),
  python(
    'h2c',
    'an upgrade to HTTP/2',
    `tcp('allowed.example', 80, get(more='Connection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMAAABkAAQAAP__\\r\\n'))`,
    {
      event: { port: 80, reason: 'upgrade_refused' },
    },
  ),
  python(
    'h2-prior-knowledge',
    'HTTP/2 on port 80',
    `tcp('allowed.example', 80, h2_requests('allowed.example', 'denied.example'))`,
    {
      event: { port: 80, reason: ['not_http', 'protocol', 'host_mismatch'] },
    },
  ),
  python(
    'not-http',
    'no HTTP at the port of HTTP',
    `tcp('allowed.example', 80, b'\\0\\1\\2' + TOKEN + b'\\r\\n\\r\\n')`,
    {
      event: { port: 80, reason: ['not_http', 'protocol', 'host_mismatch'] },
    },
  ),
  python(
    'websocket',
    'a WebSocket to a denied Host',
    `tcp('allowed.example', 80, get(host=T + '.denied.example', more='Upgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\nSec-WebSocket-Version: 13\\r\\n'))`,
    {
      event: { host: denied, port: 80, reason: badHost },
    },
  ),
  sh(
    'redirect',
    'a redirect to a denied name',
    `curl -s -m 3 -L "http://allowed.example/redirect?to=http://$T.denied.example/$T"`,
    {
      at: /^(11\.0\.2\.1|2600:11::2:1):/,
      event: { kind: 'dns', host: denied },
    },
  ),
  sh(
    'redirect-metadata',
    'a redirect to the metadata address',
    `curl -s -m 3 -L "http://allowed.example/redirect?to=http://169.254.169.254/$T"`,
    {
      at: /^169\./,
      event: { address: '169.254.169.254', port: 80 },
    },
  ),
]
