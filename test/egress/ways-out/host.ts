/** The host, its network, its gateway, and addresses that mean something inside. */
import { python, sh, staysInside, type Way } from './way.ts'

const at = (address: string, port: number) => ({ event: { address, port } })

export const host: readonly Way[] = [
  python(
    'metadata',
    'the metadata service',
    `tcp('169.254.169.254', 80, get(host='169.254.169.254'))`,
    at('169.254.169.254', 80),
  ),
  python(
    'metadata-other-port',
    'the metadata service’s other port',
    `tcp('169.254.169.254', 7050)`,
    at('169.254.169.254', 7050),
  ),
  python(
    'metadata-mapped',
    'the metadata service, mapped',
    `tcp('::ffff:169.254.169.254', 7051)`,
    at('169.254.169.254', 7051),
  ),
  python(
    'metadata-allowed-host',
    'the metadata service with an allowed Host',
    `tcp('169.254.169.254', 8080, get())`,
    {
      event: { address: '169.254.169.254', port: 8080, reason: 'private_address' },
    },
  ),
  python(
    'metadata-azure',
    'Azure’s service',
    `tcp('168.63.129.16', 80, get(host='168.63.129.16'))`,
    at('168.63.129.16', 80),
  ),
  python(
    'metadata-alibaba',
    'Alibaba’s metadata service',
    `tcp('100.100.100.200', 80, get(host='100.100.100.200'))`,
    at('100.100.100.200', 80),
  ),
  python(
    'metadata-v6',
    'the metadata service over IPv6',
    `tcp('fd00:ec2::254', 80, get(host='[fd00:ec2::254]'))`,
    at('fd00:ec2::254', 80),
  ),
  python(
    'metadata-udp',
    'the metadata service’s resolver',
    `udp('169.254.169.254', 53, question(T + '.allowed.example'))`,
    at('169.254.169.254', 53),
  ),
  python('private-10', 'a private network', `tcp('10.20.0.5', 7052)`, at('10.20.0.5', 7052)),
  python('private-172', 'a private network of Docker', `tcp('172.20.0.5', 7053)`, at('172.20.0.5', 7053)),
  python('private-192', 'a private network at home', `tcp('192.168.50.5', 7054)`, at('192.168.50.5', 7054)),
  python('private-v6', 'a private IPv6 network', `tcp('fd12:3456::5', 7055)`, at('fd12:3456::5', 7055)),
  python('router', 'the host’s router', `tcp('10.77.0.1', 7056)`, at('10.77.0.1', 7056)),
  python('host-lan', 'a service of the host at its address', `tcp('10.77.0.2', 9902)`, at('10.77.0.2', 9902)),
  python(
    'host-public',
    'a service of the host at its public address',
    `tcp('11.0.9.2', 9902)`,
    at('11.0.9.2', 9902),
  ),
  python(
    'host-v6',
    'a service of the host at its IPv6 address',
    `tcp('2600:77::2', 9902)`,
    at('2600:77::2', 9902),
  ),
  python(
    'host-link-local',
    'a service of the host at its link-local address',
    `
for device in devices():
    try:
        stream = socket.socket(socket.AF_INET6); stream.settimeout(2)
        stream.connect(('fe80::78', 9902, 0, socket.if_nametoindex(device))); stream.sendall(TOKEN); read(stream)
    except OSError as error: print(error)`,
    at('fe80::78', 9902),
  ),
  python(
    'host-nat64',
    'the host’s public address behind NAT64',
    `tcp('64:ff9b::11.0.9.2', 7062)`,
    at('64:ff9b::b00:902', 7062),
  ),
  python(
    'host-6to4',
    'the host’s public address in a 6to4 address',
    `tcp('2002:b00:902::1', 7063)`,
    at('2002:b00:902::1', 7063),
  ),
  python(
    'metadata-nat64',
    'the metadata service behind NAT64',
    `tcp('64:ff9b::169.254.169.254', 80, get(host='169.254.169.254'))`,
    at('64:ff9b::a9fe:a9fe', 80),
  ),
  python(
    'metadata-6to4',
    'the metadata service in a 6to4 address',
    `tcp('2002:a9fe:a9fe::1', 80, get(host='169.254.169.254'))`,
    at('2002:a9fe:a9fe::1', 80),
  ),
  python('host-loopback', 'the host’s loopback', `tcp('127.0.0.1', 9901)`, { event: staysInside }),
  python('host-loopback-v6', 'the host’s IPv6 loopback', `tcp('::1', 9901)`, { event: staysInside }),
  python('host-loopback-mapped', 'the host’s loopback, mapped', `tcp('::ffff:127.0.0.1', 9901)`, {
    event: staysInside,
  }),
  python('host-loopback-udp', 'a datagram to the host’s loopback', `udp('127.0.0.1', 9901)`, {
    event: staysInside,
  }),
  python('zero', 'the address 0.0.0.0', `tcp('0.0.0.0', 9901)`, { event: staysInside }),
  python('zero-v6', 'the address ::', `tcp('::', 9901)`, { event: staysInside }),
  python(
    'abstract-socket',
    'an abstract Unix socket of the host',
    `
stream = socket.socket(socket.AF_UNIX); stream.connect('\\0sandkasten-world'); stream.sendall(TOKEN); read(stream)`,
    {
      event: { unseen: 'abstract sockets belong to the network namespace' },
    },
  ),
  python(
    'path-socket',
    'a Unix socket of the host',
    `
stream = socket.socket(socket.AF_UNIX); stream.connect(os.environ['WORLD_SOCKET']); stream.sendall(TOKEN); read(stream)`,
    {
      asRoot: true,
      event: { unseen: 'the path is not in the sandbox' },
    },
  ),
  python(
    'control-socket',
    'the gateway’s control socket',
    `
stream = socket.socket(socket.AF_UNIX); stream.connect(os.environ['EGRESS_FOLDER'] + '/control.sock')
stream.sendall(json.dumps({'id': 7, 'op': 'list'}).encode() + b'\\n'); out(stream.recv(4096))`,
    {
      asRoot: true,
      event: { unseen: 'the path is not in the sandbox' },
    },
  ),
  sh('egress-folder', 'the gateway’s folder', `ls "$EGRESS_FOLDER" | grep -q sock && echo "OUT $T"`, {
    asRoot: true,
    event: { unseen: 'the path is not in the sandbox' },
  }),
  python(
    'inside-resolver',
    'the address of the sandbox’s resolver',
    `tcp('192.0.0.3', 7057)`,
    at('192.0.0.3', 7057),
  ),
  python(
    'inside-services',
    'the address of services, without one',
    `tcp('192.0.0.8', 7058)`,
    at('192.0.0.8', 7058),
  ),
  python(
    'inside-others',
    'a neighbour of the sandbox’s address',
    `tcp('192.0.0.9', 7059)`,
    at('192.0.0.9', 7059),
  ),
]
