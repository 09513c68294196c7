import { once } from 'node:events'
import { Agent, createServer, request } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import type { RunnerClient } from '@sandkasten/runner-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startRunner, type TestRunner } from './harness.ts'

let runner: TestRunner
let client: RunnerClient

beforeAll(async () => {
  runner = await startRunner()
  client = await runner.connect()
})
afterAll(() => runner[Symbol.asyncDispose]())

/** These tests listen on this machine's loopback, which is the runner's network. */
async function listening<
  T extends { listen(port: number, host: string): unknown; address(): unknown } & NodeJS.EventEmitter,
>(server: T, host = '127.0.0.1'): Promise<number> {
  server.listen(0, host)
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

function get(port: number, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    client.dial(port).then((socket) => {
      const agent = new Agent()
      agent.createConnection = () => socket
      const sent = request({ path, headers: { host: 'sandbox' }, agent }, (response) => {
        let body = ''
        response.setEncoding('utf8').on('data', (text: string) => {
          body += text
        })
        response.on('end', () => resolve(body))
      })
      sent.on('error', reject).end()
    }, reject)
  })
}

describe('ports', () => {
  it('relay many concurrent HTTP requests', async () => {
    const server = createServer((incoming, response) => response.end(`hello ${incoming.url}`))
    const port = await listening(server)
    const bodies = await Promise.all(Array.from({ length: 20 }, (_, index) => get(port, `/${index}`)))
    expect(bodies).toEqual(Array.from({ length: 20 }, (_, index) => `hello /${index}`))
    server.close()
  })

  it('relay bytes both ways, half-closed connections, and 50 MiB each way at once', async () => {
    const server = createTcpServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket))
    const port = await listening(server)
    const socket = await client.dial(port)
    const block = Buffer.alloc(1024 * 1024, 'r')
    let received = 0
    socket.on('data', (data: Buffer) => {
      received += data.length
    })
    for (let index = 0; index < 50; index++) if (!socket.write(block)) await once(socket, 'drain')
    socket.end()
    await once(socket, 'end')
    expect(received).toBe(50 * 1024 * 1024)
    server.close()
  })

  it('a stopped reader slows the server down, and memory stays bounded', async () => {
    let written = 0
    const server = createTcpServer((socket) => {
      socket.on('error', () => {})
      const more = (): void => {
        while (!socket.destroyed && socket.write(Buffer.alloc(64 * 1024))) written += 64 * 1024
      }
      socket.on('drain', more)
      more()
    })
    const port = await listening(server)
    const socket = await client.dial(port)
    await once(socket, 'readable')
    for (let round = 0; round < 50; round++) await client.ping()
    expect(await runner.rssKb()).toBeLessThan(6 * 1024)
    expect(written).toBeLessThan(64 * 1024 * 1024)
    socket.destroy()
    server.close()
  })

  it('a server on the IPv6 loopback only is found; a port without a server is refused', async () => {
    const server = createTcpServer((socket) => socket.end('six'))
    const port = await listening(server, '::1')
    const socket = await client.dial(port)
    let text = ''
    for await (const part of socket) text += part
    expect(text).toBe('six')
    server.close()
    await once(server, 'close')
    await expect(client.dial(port)).rejects.toMatchObject({ code: 'unavailable' })
    await expect(client.dial(0)).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(client.dial(70_000)).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  it('a destroyed socket closes the far side; a lost runner connection ends the socket', async () => {
    const server = createTcpServer((socket) => socket.on('error', () => {}))
    const port = await listening(server)
    const first = once(server, 'connection')
    const socket = await client.dial(port)
    const [far] = await first
    far.resume()
    socket.destroy()
    await once(far, 'close')
    const own = await runner.connect()
    const second = await own.dial(port)
    const failed = once(second, 'error')
    own.close()
    expect((await failed)[0]).toMatchObject({ code: 'connection_lost' })
    server.close()
  })

  it('listening ports are listed, and new ones announced', async () => {
    const { changes } = await client.watchPorts()
    const server = createTcpServer()
    const port = await listening(server)
    expect(await client.ports()).toContainEqual({ port, address: '127.0.0.1', uid: process.getuid?.() })
    for (;;) {
      const { value } = await changes.next()
      if (value?.opened.some((entry) => entry.port === port)) break
    }
    server.close()
    for (;;) {
      const { value } = await changes.next()
      if (value?.closed.some((entry) => entry.port === port)) break
    }
    await changes.return()
  })
})

describe('statistics', () => {
  it('list the open ports and no others', async () => {
    const stats = await client.stats()
    expect(stats).toMatchObject({ running: 0, shells: 0 })
    expect(stats.rssBytes).toBeGreaterThan(100_000)
    expect(stats.rssBytes).toBeLessThan(8 * 1024 * 1024)
    expect(stats.processes).toBeGreaterThan(0)
    await client.ping()
  })
})
