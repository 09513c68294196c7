"""Helpers of the ways out. `T` is the token of this way: where it arrives, the way leads out."""
import base64, ctypes, errno, http.client, json, os, random, socket, ssl, struct, subprocess, sys, time
import urllib.request

T = sys.argv[1]
TOKEN = T.encode()
SECONDS = 3
socket.setdefaulttimeout(SECONDS)
try:
    NAMESERVER = [line.split()[1] for line in open('/etc/resolv.conf') if line.startswith('nameserver')][0]
except (OSError, IndexError):
    NAMESERVER = '192.0.0.3'


def out(answer):
    """For ways that reach something that keeps no records."""
    print('OUT', T, answer)


def read(stream):
    try:
        print(repr(stream.recv(4096)))
    except OSError as error:
        print(error)


def tcp(host, port, data=TOKEN, keep=False):
    stream = socket.create_connection((host, port))
    stream.sendall(data if isinstance(data, bytes) else data.encode())
    if keep:
        return stream
    read(stream)


def ask_daemon(address):
    """Every listener of the daemon answers HTTP, and keeps no records."""
    with socket.create_connection(address[:2]) if len(address) == 2 else socket.socket(socket.AF_INET6) as stream:
        if len(address) > 2:
            stream.settimeout(2)
            stream.connect(address)
        stream.sendall(('GET /healthz?%s HTTP/1.1\r\nHost: localhost\r\n\r\n' % T).encode())
        answer = stream.recv(4096)
        (out if answer.startswith(b'HTTP/1.1 ') else print)(answer)


def context(alpn=None):
    unchecked = ssl._create_unverified_context()
    if alpn:
        unchecked.set_alpn_protocols(alpn)
    return unchecked


def get(path=None, host='allowed.example', more=''):
    return 'GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n' % (path or '/' + T, host, more)


def tls(address, port, sni, data=None, alpn=None):
    stream = socket.create_connection((address, port))
    # One process answers all handshakes. A refused one ends at once.
    stream.settimeout(3 * SECONDS)
    stream = context(alpn).wrap_socket(stream, server_hostname=sni)
    stream.settimeout(SECONDS)
    data = get(host=sni) if data is None else data
    stream.sendall(data if isinstance(data, bytes) else data.encode())
    read(stream)
    return stream


def udp(host, port, data=TOKEN, family=socket.AF_INET, protocol=0, options=()):
    with socket.socket(family, socket.SOCK_DGRAM, protocol) as datagram:
        for option in options:
            datagram.setsockopt(*option)
        for _ in range(2):
            datagram.sendto(data, (host, port) if not isinstance(host, tuple) else host)
        read(datagram)


def name_bytes(name):
    labels = [label.encode('latin1') for label in name.strip('.').split('.')]
    return b''.join(bytes([len(label)]) + label for label in labels) + b'\0'


def question(name, kind=1, count=1, code=0x0100, tail=b'', additional=0, klass=1):
    names = [name] if isinstance(name, str) else name
    body = b''.join(name_bytes(one) + struct.pack('!HH', kind, klass) for one in names)
    return struct.pack('!6H', random.randrange(65536), code, len(names), 0, 0, additional) + body + tail


def ask(query, server=None):
    udp(server or NAMESERVER, 53, query)


def ask_tcp(*queries, server=None):
    tcp(server or NAMESERVER, 53, b''.join(struct.pack('!H', len(query)) + query for query in queries))


def checksum(data):
    if len(data) % 2:
        data += b'\0'
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def echo_request():
    body = struct.pack('!HH', os.getpid() & 0xFFFF, 1) + TOKEN
    return b'\x08\0' + struct.pack('!H', checksum(b'\x08\0\0\0' + body)) + body


def ip_packet(to, protocol, payload, flags=0, ident=7):
    header = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(payload), ident, flags, 64, protocol, 0, b'\0' * 4,
                         socket.inet_aton(to))
    return header + payload


def raw(to, protocol, payload, own_header=False):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, 255 if own_header else protocol) as stream:
        stream.sendto(payload, (to, 0))


def udp_payload(port, data):
    return struct.pack('!4H', 40000, port, 8 + len(data), 0) + data


def extension(kind, data):
    return struct.pack('!HH', kind, len(data)) + data


def server_names(*names):
    entries = b''.join(b'\0' + struct.pack('!H', len(name)) + name for name in names)
    return extension(0, struct.pack('!H', len(entries)) + entries)


def hello(*extensions):
    """A ClientHello of TLS 1.3 by hand. Its session id is the token."""
    more = b''.join(extensions) + extension(43, b'\x02\x03\x04') + extension(10, b'\0\x02\0\x1d')
    more += extension(13, b'\0\x02\x04\x03') + extension(51, b'\0\x24\0\x1d\0\x20' + b'k' * 32)
    session = TOKEN.ljust(32, b'.')[:32]
    body = b'\x03\x03' + b'r' * 32 + bytes([32]) + session + b'\0\x02\x13\x01' + b'\x01\0'
    body += struct.pack('!H', len(more)) + more
    return b'\x01' + struct.pack('!I', len(body))[1:] + body


def records(handshake, size=16384):
    parts = [handshake[at:at + size] for at in range(0, len(handshake), size)]
    return b''.join(b'\x16\x03\x01' + struct.pack('!H', len(part)) + part for part in parts)


def devices():
    return [name for _, name in socket.if_nameindex()]


def h2_frame(kind, flags, stream, payload):
    return struct.pack('!I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('!I', stream) + payload


def h2_text(name, value):
    return b'\0' + bytes([len(name)]) + name + bytes([len(value)]) + value


def h2_start():
    return b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + h2_frame(4, 0, 0, b'')


def h2_request(stream, fields):
    """A GET of the token, with these fields instead of an authority."""
    if not any(name == b':method' for name, _ in fields):
        fields = [(b':method', b'GET'), (b':scheme', b'https'), (b':path', b'/' + TOKEN)] + fields
    fields.sort(key=lambda field: not field[0].startswith(b':'))
    return h2_frame(1, 5, stream, b''.join(h2_text(*field) for field in fields))


def h2_requests(*authorities):
    """The preface and one GET for each authority, on streams 1, 3, … Only the first does not name the token."""
    data = h2_start()
    for at, authority in enumerate(authorities):
        fields = ((b':method', b'GET'), (b':scheme', b'https'), (b':authority', authority.encode()),
                  (b':path', b'/' + TOKEN if at else b'/first'))
        data += h2_frame(1, 5, 1 + 2 * at, b''.join(h2_text(*field) for field in fields))
    return data
