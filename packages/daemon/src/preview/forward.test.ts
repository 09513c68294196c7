import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { connect } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { forward } from './forward.ts'
import { pairsOf, requestHeaders } from './request-headers.ts'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

async function listen(server: Server): Promise<number> {
  servers.push(server)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as { port: number }).port
}

/** Starts a server that forwards all requests to a port. */
async function proxy(port: number, bodyIdleMs: number): Promise<{ port: number; failures: unknown[] }> {
  const failures: unknown[] = []
  const target = { id: 'a', port, form: 'name', prefix: '', rest: '/' } as const
  const server = createServer(async (request, response) => {
    const passing = {
      target,
      passable: { path: '/', headers: [...pairsOf(request.rawHeaders)] },
      secure: false,
      behindProxy: false,
    }
    const headers = requestHeaders(request, passing)
    const dialled = { port, headers: {}, connect: async () => connect(port, '127.0.0.1') }
    try {
      await forward(request, response, { port: dialled, target, path: '/', headers, bodyIdleMs, touch() {} })
    } catch (error) {
      failures.push(error)
      response.writeHead(500, { connection: 'close' }).end()
    }
  })
  return { port: await listen(server), failures }
}

it('a body that stops arriving closes the connections to visitor and sandbox', async () => {
  const inside = createServer()
  const asked = once(inside, 'request')
  const { port, failures } = await proxy(await listen(inside), 50)
  const socket = connect(port, '127.0.0.1')
  socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc')
  const [request] = await asked
  const closed = (stream: NodeJS.ReadableStream) =>
    new Promise((resolve) =>
      stream
        .resume()
        .on('error', () => {})
        .once('close', resolve),
    )
  await Promise.all([closed(request), closed(socket)])
  expect(request.complete).toBe(false)
  expect(failures).toMatchObject([{ code: 'timeout' }])
})

it('an invalid or ambiguous response of the sandbox is refused', async () => {
  const { createServer: createTcpServer } = await import('node:net')
  for (const answer of [
    'SSH-2.0-OpenSSH\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef',
    'HTTP/1.1 200 OK\r\nx: a\rset-cookie: b\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n',
  ]) {
    const inside = createTcpServer((socket) => {
      socket.on('error', () => {})
      socket.end(answer)
    })
    await once(inside.listen(0, '127.0.0.1'), 'listening')
    const { port, failures } = await proxy((inside.address() as { port: number }).port, 10_000)
    const { status } = await fetch(`http://127.0.0.1:${port}/`)
    expect(status, answer).toBe(500)
    expect(failures[0], answer).toMatchObject({
      code: expect.stringMatching(/^(provider_error|connection_lost)$/),
    })
    inside.close()
  }
})

it('a visitor sees that a response is incomplete', async () => {
  const inside = createServer((_, response) => {
    response.writeHead(200, { 'content-length': 10 })
    response.write('abc', () => response.destroy())
  })
  const { port, failures } = await proxy(await listen(inside), 10_000)
  const response = await fetch(`http://127.0.0.1:${port}/`)
  await expect(response.text()).rejects.toThrow()
  expect(failures).toEqual([])
})
