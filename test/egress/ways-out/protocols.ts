/** Everything that is not TCP. */
import { noSocket, python, sh, type Way } from './way.ts'

const rejected = (kind: string, address: string, port?: number) => ({
  event: port === undefined ? { kind, address } : { kind, address, port },
})

export const protocols: readonly Way[] = [
  python('udp', 'a datagram', `udp('11.0.2.1', 7030)`, rejected('udp', '11.0.2.1', 7030)),
  python(
    'udp-v6',
    'a datagram over IPv6',
    `udp('2600:11::2:1', 7031, family=socket.AF_INET6)`,
    rejected('udp', '2600:11::2:1', 7031),
  ),
  python(
    'quic',
    'HTTP/3 to an allowed address',
    `udp('11.0.1.1', 443, b'\\xc0\\0\\0\\0\\1\\x08' + TOKEN.ljust(1200, b'.'))`,
    rejected('udp', '11.0.1.1', 443),
  ),
  python(
    'large-datagram',
    'a datagram in fragments',
    `udp('11.0.2.1', 7032, TOKEN + b'x' * 8000)`,
    rejected('udp', '11.0.2.1', 7032),
  ),
  python(
    'udp-lite',
    'UDP-Lite',
    `
try:
    udp('11.0.2.1', 7033, protocol=136)
except OSError as error:
    print(error); raw('11.0.2.1', 136, udp_payload(7033, TOKEN))`,
    { asRoot: true, event: { unseen: 'this kernel has no UDP-Lite; raw sockets are refused' } },
  ),
  python(
    'ping',
    'an echo request of a ping socket',
    `
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1) as stream:
    stream.sendto(echo_request(), ('11.0.2.1', 0)); read(stream)`,
    { event: { unseen: 'the sandbox has no ping sockets' } },
  ),
  python('icmp', 'an echo request of a raw socket', `raw('11.0.2.1', 1, echo_request())`, {
    asRoot: true,
    event: noSocket,
  }),
  python(
    'icmp-v6',
    'ICMPv6',
    `
with socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58) as stream:
    stream.sendto(b'\\x80\\0\\0\\0\\0\\1\\0\\1' + TOKEN, ('2600:11::2:1', 0))`,
    { asRoot: true, event: noSocket },
  ),
  python(
    'raw-ip',
    'an IP packet by hand',
    `raw('11.0.2.1', 0, ip_packet('11.0.2.1', 17, udp_payload(7034, TOKEN)), own_header=True)`,
    {
      asRoot: true,
      event: noSocket,
    },
  ),
  python('gre', 'another IP protocol', `raw('11.0.2.1', 47, b'\\0\\0\\x08\\0' + TOKEN)`, {
    asRoot: true,
    event: noSocket,
  }),
  python(
    'sctp',
    'SCTP',
    `
try:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132) as stream: stream.connect(('11.0.2.1', 7035))
except OSError as error:
    print(error); raw('11.0.2.1', 132, udp_payload(7035, TOKEN))`,
    { asRoot: true, event: { unseen: 'this kernel has no SCTP; raw sockets are refused' } },
  ),
  python(
    'fragments',
    'IP fragments by hand',
    `
whole = udp_payload(7036, TOKEN.ljust(48, b'.'))
for flags, part in ((0x2000, whole[:32]), (4, whole[32:])):
    raw('11.0.2.1', 0, ip_packet('11.0.2.1', 17, part, flags), own_header=True)`,
    { asRoot: true, event: noSocket },
  ),
  python(
    'packet-socket',
    'an Ethernet frame by hand',
    `
for device in devices():
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as stream:
        stream.bind((device, 0x0800))
        try: stream.send(b'\\xff' * 6 + b'\\2' + b'\\0' * 5 + b'\\x08\\0' + ip_packet('11.0.2.1', 17, udp_payload(7037, TOKEN)))
        except OSError as error: print(error)`,
    { asRoot: true, event: noSocket },
  ),
  python(
    'vsock',
    'a socket to the hypervisor',
    `
with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM): out('made')`,
    { asRoot: true, event: noSocket },
  ),
  python(
    'tun',
    'a device of its own',
    `
import fcntl
with open('/dev/net/tun', 'r+b', buffering=0) as tun:
    fcntl.ioctl(tun, 0x400454CA, struct.pack('16sH14x', TOKEN[:15], 0x1001)); out('made')`,
    {
      asRoot: true,
      event: { unseen: 'the sandbox may not create a device' },
    },
  ),
  sh(
    'netlink',
    'a device through netlink',
    `ip link add "$T" type veth peer name "p$T" && echo "OUT $T" && ip link delete "$T"`,
    {
      asRoot: true,
      event: { unseen: 'the sandbox may not create a device' },
    },
  ),
  python(
    'netlink-route',
    'a route through netlink',
    `
import subprocess
subprocess.run(['ip', 'route', 'add', '11.9.9.9/32', 'dev', 'lo'], check=True)
out('made'); subprocess.run(['ip', 'route', 'delete', '11.9.9.9/32'])`,
    { asRoot: true, event: { unseen: 'the sandbox may not change routes' } },
  ),
  python(
    'mark',
    'packets with a mark that a routing rule might know',
    `
for mark in (1, 2, 3, 7, 0x53, 255):
    stream = socket.socket()
    stream.setsockopt(socket.SOL_SOCKET, 36, mark); stream.settimeout(3)
    try: stream.connect(('11.0.2.1', 7038)); stream.sendall(TOKEN)
    except OSError as error: print(error)`,
    { asRoot: true, event: { unseen: 'the sandbox may not mark packets' } },
  ),
  python(
    'transparent',
    'an address of somebody else as the source',
    `
stream = socket.socket()
stream.setsockopt(0, 19, 1); stream.bind(('11.0.9.2', 0)); stream.settimeout(3)
stream.connect(('11.0.2.1', 7039)); stream.sendall(TOKEN); read(stream)`,
    { asRoot: true, event: noSocket },
  ),
  python(
    'mptcp',
    'multipath TCP',
    `
stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
stream.connect(('11.0.2.1', 7040)); stream.sendall(TOKEN); read(stream)`,
    { event: { address: '11.0.2.1', port: 7040 }, opens: true },
  ),
  python(
    'fast-open',
    'data in the first packet',
    `
stream = socket.socket()
stream.settimeout(None); stream.sendto(TOKEN, 0x20000000, ('11.0.2.1', 7041))
stream.settimeout(3); read(stream)`,
    { event: { address: '11.0.2.1', port: 7041 }, opens: true },
  ),
  python(
    'urgent',
    'urgent data',
    `
stream = socket.create_connection(('11.0.2.1', 7042)); stream.send(TOKEN, socket.MSG_OOB); read(stream)`,
    {
      event: { address: '11.0.2.1', port: 7042 },
    },
  ),
  python(
    'source-route',
    'a route inside the packet',
    `udp('11.0.2.1', 7043, options=[(0, 4, b'\\x83\\7\\4\\x0a\\x4d\\0\\1\\1')])`,
    {
      event: { unseen: 'the kernel refuses the option, or rejects the packet' },
    },
  ),
  python(
    'source-route-tcp',
    'a route inside TCP packets',
    `
stream = socket.socket()
stream.settimeout(3)
stream.setsockopt(0, 4, b'\\x83\\7\\4\\x0b\\0\\2\\1\\1'); stream.connect(('11.0.2.1', 7044)); stream.sendall(TOKEN); read(stream)`,
    {
      event: { unseen: 'the kernel refuses the option' },
    },
  ),
  python('multicast', 'multicast', `udp('239.1.2.3', 7045)`, rejected('udp', '239.1.2.3', 7045)),
  python(
    'all-hosts',
    'multicast to all hosts of the link',
    `udp('224.0.0.1', 7046)`,
    rejected('udp', '224.0.0.1', 7046),
  ),
  python(
    'multicast-v6',
    'IPv6 multicast on each device',
    `
for device in devices():
    try: udp(('ff02::1', 7047, 0, socket.if_nametoindex(device)), 7047, family=socket.AF_INET6)
    except OSError as error: print(error)`,
    rejected('udp', 'ff02::1', 7047),
  ),
  python(
    'broadcast',
    'broadcast',
    `udp('255.255.255.255', 7048, options=[(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)])`,
    rejected('udp', '255.255.255.255', 7048),
  ),
  python(
    'link-local',
    'a link-local address on each device',
    `
for device in devices():
    try:
        stream = socket.socket(socket.AF_INET6); stream.settimeout(2)
        stream.connect(('fe80::77', 7049, 0, socket.if_nametoindex(device))); stream.sendall(TOKEN); read(stream)
    except OSError as error: print(error)`,
    { event: { address: 'fe80::77', port: 7049 } },
  ),
]
