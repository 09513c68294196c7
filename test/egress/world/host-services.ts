/** The host's own services, which no sandbox may reach: on its loopback, on its addresses, and on Unix sockets. */
import { createSocket } from 'node:dgram'
import { createServer, type Socket } from 'node:net'
import { HOST_PORT, LOOPBACK_PORT } from './addresses.ts'
import { say, text } from './records.ts'

const [abstractName = '', socketPath = ''] = process.argv.slice(2)

function serve(where: { port: number; host: string } | { path: string }, at: string): Promise<void> {
  const kind = 'path' in where ? 'unix' : 'tcp'
  const server = createServer((socket: Socket) => {
    say({ kind, at, data: '' })
    socket.on('error', () => {})
    socket.on('data', (data) => say({ kind, at, data: text(data) }))
    socket.write('HTTP/1.0 200 OK\r\n\r\nreached\r\n')
  })
  return new Promise((resolve) => server.listen(where, resolve))
}

function listenForDatagrams(type: 'udp4' | 'udp6', port: number, host: string): Promise<void> {
  const socket = createSocket(type)
  socket.on('message', (data) =>
    say({ kind: 'packet', protocol: 17, at: `${host}:${port}`, data: text(data) }),
  )
  return new Promise((resolve) => socket.bind(port, host, resolve))
}

await Promise.all([
  serve({ port: LOOPBACK_PORT, host: '127.0.0.1' }, 'loopback'),
  serve({ port: LOOPBACK_PORT, host: '::1' }, 'loopback'),
  serve({ port: HOST_PORT, host: '::' }, 'host'),
  serve({ path: `\0${abstractName}` }, 'abstract'),
  serve({ path: socketPath }, 'path'),
  listenForDatagrams('udp4', LOOPBACK_PORT, '127.0.0.1'),
  listenForDatagrams('udp6', HOST_PORT, '::'),
])
say({ ready: true })
