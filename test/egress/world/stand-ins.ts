/**
 * The internet: every server at every address. Arguments: the certificate, its key, a folder. Runs in its own network
 * namespace.
 */
import { createSocket } from 'node:dgram'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createSecureServer } from 'node:http2'
import { createServer as createTcpServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import { WebSocketServer } from 'ws'
import { FOREIGN_RESOLVER, HTTP_PORTS, RAW_PORTS, RESOLVER, TLS_PORTS } from './addresses.ts'
import { answerTo, questionOf } from './dns.ts'
import { say, text } from './records.ts'
import { openGit } from './sites/git.ts'
import { models } from './sites/models.ts'
import { openRegistries } from './sites/registries.ts'
import type { Site } from './sites/site.ts'

const [certificate = '', key = '', folder = ''] = process.argv.slice(2)
const sites: Readonly<Record<string, Site>> = { ...openGit(folder), ...openRegistries(folder), ...models }
const at = (socket: Socket) => `${socket.localAddress?.replace('::ffff:', '')}:${socket.localPort}`
const waiting: Array<Promise<void>> = []

const sockets = new WebSocketServer({ noServer: true })
const listen = (server: Server, port: number) => {
  const up = new Promise<void>((resolve) => server.listen({ port, host: '::' }, resolve))
  waiting.push(up)
}

for (const port of TLS_PORTS) {
  const server = createSecureServer({
    cert: readFileSync(certificate),
    key: readFileSync(key),
    allowHTTP1: true,
    ALPNProtocols: ['h2', 'http/1.1'],
  })
  server.on('secureConnection', (socket) =>
    say({ kind: 'tls', at: at(socket), data: String((socket as TLSSocket).servername) }),
  )
  server.on('tlsClientError', () => {})
  server.on('clientError', malformed)
  server.on('sessionError', () => {})
  server.on('request', (request, response) => respond(request as never, response as never))
  server.on('upgrade', upgrade)
  server.on('connect', tunnel)
  listen(server as unknown as Server, port)
}
for (const port of HTTP_PORTS) {
  const server = createServer({ insecureHTTPParser: true }, respond)
  server.on('upgrade', upgrade)
  server.on('connect', tunnel)
  server.on('clientError', malformed)
  server.on('connection', (socket) => say({ kind: 'tcp', at: at(socket), data: '' }))
  listen(server, port)
}
for (const port of RAW_PORTS)
  listen(
    createTcpServer((socket) => {
      say({ kind: 'tcp', at: at(socket), data: '' })
      socket.on('error', () => {})
      socket.on('data', (data) => {
        say({ kind: 'tcp', at: at(socket), data: text(data) })
        socket.write(data)
      })
      socket.write('reached\r\n')
    }),
    port,
  )
for (const address of [RESOLVER, FOREIGN_RESOLVER]) serveDns(address)

await Promise.all(waiting)
say({ ready: true })

function respond(request: IncomingMessage, response: ServerResponse): void {
  const { headers, method, socket } = request
  const url = new URL(request.url ?? '/', 'http://stand-in')
  const kind = request.httpVersionMajor === 2 ? 'h2' : 'http'
  const host = headers.host ?? headers[':authority']
  const body: Buffer[] = []
  request.on('error', () => {})
  request.on('data', (chunk: Buffer) => body.push(chunk))
  request.on('end', () => {
    const sent = Buffer.concat(body)
    say({
      kind,
      at: at(socket),
      data: `${method} ${host} ${request.url}\n${text(sent)}`,
      headers: { ...headers },
    })
    const to = url.searchParams.get('to')
    const site = sites[String(host).toLowerCase()]
    if (site && headers.authorization === undefined && headers['x-api-key'] === undefined)
      response.writeHead(401, { 'www-authenticate': 'Basic' }).end()
    else if (site) site(request, sent, response)
    else if (url.pathname === '/redirect' && to) response.writeHead(302, { location: to }).end()
    else if (url.pathname === '/dns-query') response.end(dnsAnswer(sent, at(socket), true))
    else if (url.pathname === '/bytes') stream(response, Number(url.searchParams.get('count')))
    else {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ method, url: request.url, headers }))
    }
  })
}

function malformed(error: Error & { rawPacket?: Buffer }, socket: Duplex): void {
  if (error.rawPacket) say({ kind: 'http', at: at(socket as Socket), data: text(error.rawPacket) })
  socket.destroy()
}

/** As fast as the client reads. */
function stream(response: ServerResponse, count: number): void {
  const chunk = Buffer.alloc(65_536)
  let left = count
  response.setHeader('content-length', count)
  const more = () => {
    while (left > 0) {
      const part = left < chunk.length ? chunk.subarray(0, left) : chunk
      left -= part.length
      if (!response.write(part)) return
    }
    response.end()
  }
  response.on('drain', more)
  more()
}

function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const { headers, url } = request
  say({ kind: 'websocket', at: at(request.socket), data: `${headers.host} ${url}`, headers: { ...headers } })
  sockets.handleUpgrade(request, socket, head, (client) => {
    client.on('error', () => {})
    client.on('message', (data) => {
      say({ kind: 'websocket', at: at(request.socket), data: text(Buffer.from(data as Buffer)) })
      client.send(data.toString())
    })
  })
}

/** A proxy that leads nowhere but records what it is given. */
function tunnel(request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const here = at(request.socket)
  const record = (data: Buffer) => say({ kind: 'connect', at: here, data: `${request.url}\n${text(data)}` })
  record(head)
  socket.on('error', () => {})
  socket.on('data', record)
  socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
}

function dnsAnswer(query: Buffer, where: string, overTcp: boolean): Buffer | undefined {
  try {
    const { name, type } = questionOf(query)
    say({ kind: 'dns', at: where, data: `${type} ${name}\n${text(query)}` })
    return answerTo(query, overTcp)
  } catch {
    say({ kind: 'dns', at: where, data: text(query) })
    return undefined
  }
}

/** Bound to one address, so that answers come from that address. */
function serveDns(address: string): void {
  const udp = createSocket('udp4')
  udp.on('message', (query, from) => {
    const answered = dnsAnswer(query, `${address}:53`, false)
    if (answered) udp.send(answered, from.port, from.address)
  })
  waiting.push(new Promise((resolve) => udp.bind(53, address, resolve)))
  const tcp = createTcpServer((socket) => {
    let pending = Buffer.alloc(0)
    socket.on('error', () => {})
    socket.on('data', (data) => {
      pending = Buffer.concat([pending, data])
      while (pending.length >= 2 && pending.length >= 2 + pending.readUInt16BE(0)) {
        const length = pending.readUInt16BE(0)
        const answered = dnsAnswer(pending.subarray(2, 2 + length), `${address}:53`, true)
        pending = pending.subarray(2 + length)
        if (!answered) continue
        socket.write(Buffer.from([answered.length >> 8, answered.length & 255]))
        socket.write(answered)
      }
    })
  })
  waiting.push(new Promise((resolve) => tcp.listen(53, address, resolve)))
}
