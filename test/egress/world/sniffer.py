"""Prints every packet that arrives from the host as a line of JSON, so that no protocol escapes the records."""
import json, socket, struct, sys

PACKET_OUTGOING = 4
NEIGHBOURS = range(133, 138)

device = sys.argv[1]
sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
sniffer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
sniffer.bind((device, 3))


def parsed(kind, packet):
    if kind == 0x0800 and len(packet) >= 20:
        header = (packet[0] & 15) * 4
        return packet[9], socket.inet_ntop(socket.AF_INET, packet[16:20]), packet[header:], packet[20:header]
    if kind == 0x86DD and len(packet) >= 40:
        return packet[6], socket.inet_ntop(socket.AF_INET6, packet[24:40]), packet[40:], b''
    return None


print('{"ready":true}', flush=True)
while True:
    packet, (_, kind, direction, *_) = sniffer.recvfrom(65536)
    if direction == PACKET_OUTGOING or kind == 0x0806:
        continue
    found = parsed(kind, packet)
    if found is None:
        record = {'kind': 'packet', 'protocol': 'ethernet %04x' % kind, 'at': '', 'data': packet[:2048].decode('latin1')}
    else:
        protocol, to, payload, options = found
        port = 0
        if protocol == 58 and payload[:1] and payload[0] in NEIGHBOURS or protocol in (0, 2) or protocol == 58 and payload[:1] == b'\x8f':
            continue
        if protocol in (6, 17, 132, 136) and len(payload) >= 4:
            port = struct.unpack('!H', payload[2:4])[0]
        if protocol == 6 and len(payload) >= 20:
            start = (payload[12] >> 4) * 4
            # Of a connection that the servers record, only the first packet counts, and what was sent with it.
            if not payload[13] & 2 and len(payload) == start:
                continue
            payload = payload[start:]
        record = {'kind': 'packet', 'protocol': protocol, 'at': '%s:%d' % (to, port), 'data': payload[:2048].decode('latin1')}
        if options:
            record['options'] = options.hex()
    print(json.dumps(record), flush=True)
