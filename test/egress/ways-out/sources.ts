/** Sockets with options: another source, device, route or way to send. */
import { python, staysInside, type Way } from './way.ts'

export const sources: readonly Way[] = [
  python(
    'source-loopback',
    'loopback and the gateway’s own addresses as the source',
    `
for source in ('127.0.0.1', '127.9.9.9', '192.0.0.1', '192.0.0.3', '0.0.0.0'):
    try:
        with socket.create_connection(('11.0.2.1', 7070), 0.7, (source, 0)) as stream: stream.sendall(TOKEN); read(stream)
    except OSError as error: print(source, error)`,
    { event: { address: '11.0.2.1', port: 7070 }, opens: true },
  ),
  python(
    'source-destination',
    'the destination as the source',
    `
with socket.socket() as stream:
    stream.settimeout(2)
    try: stream.bind(('11.0.2.1', 0))
    except OSError as error: print(error)
    stream.connect(('11.0.2.1', 7071)); stream.sendall(TOKEN); read(stream)`,
    { event: { unseen: 'the sandbox’s kernel answers itself' } },
  ),
  python(
    'device-bound',
    'a connection of each device',
    `
for device in devices():
    with socket.socket() as stream:
        stream.settimeout(1)
        try:
            stream.setsockopt(socket.SOL_SOCKET, 25, device.encode() + b'\\0')
            stream.connect(('11.0.2.1', 7073)); stream.sendall(TOKEN); read(stream)
        except OSError as error: print(device, error)`,
    { event: { address: '11.0.2.1', port: 7073 } },
  ),
  python(
    'device-bound-datagram',
    'a datagram of each device',
    `
for device in devices():
    try: udp('11.0.2.1', 7074, options=[(socket.SOL_SOCKET, 25, device.encode() + b'\\0')])
    except OSError as error: print(device, error)`,
    { event: { kind: 'udp', address: '11.0.2.1', port: 7074 } },
  ),
  python(
    'routing-header',
    'a routing header of IPv6 that names the real destination',
    `
for kind in (2, 4, 0):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as datagram:
        hop = socket.inet_pton(socket.AF_INET6, '2600:11::2:1')
        try: datagram.setsockopt(41, 57, bytes([0, 2, kind, 1 if kind != 4 else 0, 0, 0, 0, 0]) + hop)
        except OSError as error: print(kind, error)
        try: datagram.sendto(TOKEN, ('2600:11::2:1', 7075))
        except OSError as error: print(error)`,
    { event: { address: '2600:11::2:1' } },
  ),
  python(
    'short-life',
    'a packet that may make one hop only',
    `
with socket.socket() as stream:
    stream.settimeout(2); stream.setsockopt(0, 2, 1)
    stream.connect(('11.0.2.1', 7076)); stream.sendall(TOKEN); read(stream)`,
    { event: { address: '11.0.2.1', port: 7076 }, opens: true },
  ),
  python(
    'segments',
    'many datagrams in one call',
    `udp('11.0.2.1', 7077, TOKEN * 40, options=[(17, 103, len(TOKEN))])`,
    { event: { kind: 'udp', address: '11.0.2.1', port: 7077 } },
  ),
  python(
    'broadcast-of-network',
    'a datagram to the broadcast address of the network',
    `
for address in ('10.77.0.255', '192.0.0.255', '127.255.255.255'):
    try: udp(address, 7078, options=[(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)])
    except OSError as error: print(error)`,
    { event: { kind: 'udp', address: '10.77.0.255', port: 7078 } },
  ),
  python(
    'listener-address',
    'the address and port of the sandbox’s own listener',
    `
for address, port in (('192.0.0.1', 1), ('fd73:616e:646b::1', 1), ('11.0.2.1', 7079)):
    try: tcp(address, port)
    except OSError as error: print(error)`,
    { event: { address: '192.0.0.1', port: 1 }, at: /^(192|fd73|11\.0\.2\.1:7079)/, opens: true },
  ),
  python(
    'raw-ring',
    'a socket that the kernel makes for io_uring, past a filter of system calls',
    `
libc = ctypes.CDLL(None, use_errno=True)
ring = libc.syscall(425, 4, (ctypes.c_char * 120)())
out('made') if ring >= 0 else print(os.strerror(ctypes.get_errno()))`,
    { asRoot: true, event: { unseen: 'the sandbox has no io_uring' } },
  ),
  python(
    'other-families',
    'sockets of families that know no network namespace',
    `
import errno
for family in range(46):
    if family in (1, 2, 10, 16): continue
    for kind in (1, 2, 3, 5):
        try:
            with socket.socket(family, kind): out('family %d made' % family)
        except OSError as error: print(family, error)`,
    { asRoot: true, event: { unseen: 'the sandbox may not create this socket' } },
  ),
  python(
    'own-namespace',
    'a network namespace of its own',
    `
libc = ctypes.CDLL(None, use_errno=True)
out('made') if libc.unshare(0x50000000) == 0 or libc.unshare(0x40000000) == 0 else print(os.strerror(ctypes.get_errno()))`,
    { asRoot: true, event: { unseen: 'the sandbox may not create a namespace' } },
  ),
  python('loopback-broadcast', 'any address of loopback', `tcp('127.255.255.254', 9902)`, {
    event: staysInside,
  }),
]
