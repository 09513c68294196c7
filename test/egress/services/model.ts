/** A model’s server on the host’s loopback: HTTP, events, and WebSockets. Prints its port, then what it sees. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocketServer } from 'ws'

const streams = new Map<string, ServerResponse>()
let most = 0

const server = createServer((request, response) => {
  const url = new URL(request.url ?? '/', 'http://model')
  const id = url.searchParams.get('id') ?? ''
  if (url.pathname === '/events') {
    streams.set(id, response)
    most = Math.max(most, streams.size)
    response.on('close', () => streams.delete(id))
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(`data: ${id} 0\n\n`)
  } else if (url.pathname === '/next') {
    // The client asks for an event when it has the one before: nothing on the way may wait for more.
    const at = Number(url.searchParams.get('at'))
    streams.get(id)?.write(`data: ${id} ${at}\n\n`)
    if (at === 5) streams.get(id)?.end()
    response.end('sent')
  } else if (url.pathname === '/most') response.end(String(most))
  else {
    const body: Buffer[] = []
    request.on('data', (chunk: Buffer) => body.push(chunk))
    request.on('end', () => {
      const { host } = request.headers
      response.end(JSON.stringify({ method: request.method, host, bytes: Buffer.concat(body).length }))
    })
  }
})
const sockets = new WebSocketServer({ server })
sockets.on('connection', (socket) => {
  socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
})
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
