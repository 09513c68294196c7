/** The same program for all subjects: it measures itself and prints milliseconds. */
export const CLIENT = `
import socket, ssl, sys, time
what, name, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
address = socket.getaddrinfo(name, port, socket.AF_INET, socket.SOCK_STREAM)[0][4]
context = ssl._create_unverified_context()

def get(bytes):
    stream = socket.create_connection(address)
    if port == 443:
        stream = context.wrap_socket(stream, server_hostname=name)
    request = 'GET /bytes?count=%d HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' % (bytes, name)
    stream.sendall(request.encode())
    return stream

def now():
    return time.perf_counter() * 1000

if what == 'bulk':
    buffer, left = bytearray(1 << 18), count
    start = now()
    stream = get(count)
    while left > 0:
        got = stream.recv_into(buffer)
        if got == 0: sys.exit('the connection ended early')
        left -= got
    print(now() - start)
else:
    for _ in range(count):
        start = now()
        stream = get(1)
        stream.recv(1)
        print(now() - start)
        stream.close()
`

export const HOST = 'front.wild.example'

export const PORTS = { plain: 80, tls: 443 } as const

export type Port = keyof typeof PORTS

/** Arguments of python3. */
export function bulk(port: Port, bytes: number): string[] {
  return ['-c', CLIENT, 'bulk', HOST, String(PORTS[port]), String(bytes)]
}

/** From the call of connect to the first byte of the answer: with a policy, connect itself is answered locally. */
export function firstByte(port: Port, count: number): string[] {
  return ['-c', CLIENT, 'first', HOST, String(PORTS[port]), String(count)]
}

export function numbers(output: string): number[] {
  return output.trim().split('\n').map(Number)
}
