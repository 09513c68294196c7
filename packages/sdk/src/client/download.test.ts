import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createSocketServer, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { Http } from './http.ts'

const closing: Array<() => void> = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

async function serve(listener: RequestListener): Promise<Http> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return new Http({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, apiKey: 'k' })
}

async function serveRaw(answer: (socket: Socket) => void): Promise<Http> {
  const server = createSocketServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', () => answer(socket))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(() => server.close())
  return new Http({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, apiKey: 'k' })
}

async function bytesOf(http: Http, path = '/', signal?: AbortSignal): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of await download(http, path, signal)) chunks.push(chunk)
  // Concatenated at the end: a chunk must not change while later ones arrive.
  return Buffer.concat(chunks)
}

async function download(http: Http, path = '/', signal?: AbortSignal): Promise<AsyncGenerator<Uint8Array>> {
  return http.chunks(path, { signal })
}

/** A port of this machine on which nothing listens. Port 9 would not do: fetch refuses it without trying. */
async function closedPort(): Promise<number> {
  const server = createSocketServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  )
const hash = (data: Uint8Array) => createHash('sha256').update(data).digest('hex')
const send = (response: ServerResponse, data: Uint8Array) => {
  response.writeHead(200, { 'content-length': data.length })
  response.end(data)
}

describe('downloads', () => {
  it.each([0, 1, 65_535, 65_536, 1_000_003, 20_000_000])('%i bytes arrive unchanged', async (size) => {
    const data = randomBytes(size)
    const http = await serve((_, response) => send(response, data))
    expect(hash(await bytesOf(http))).toBe(hash(data))
  })

  it('reuses connections for downloads and other requests', async () => {
    const sockets = new Set<unknown>()
    const data = randomBytes(300_000)
    const http = await serve((request, response) => {
      sockets.add(request.socket)
      if (request.url === '/json') response.end('{"ok":true}')
      else send(response, data)
    })
    for (let round = 0; round < 5; round += 1) {
      expect(hash(await bytesOf(http))).toBe(hash(data))
      expect(await http.json('GET', '/json')).toEqual({ ok: true })
    }
    // fetch frees a connection a moment after the response, so two may take turns.
    expect(sockets.size).toBeLessThanOrEqual(2)
  })

  it('reads a response without a content-length', async () => {
    let requests = 0
    const http = await serve((_, response) => {
      requests += 1
      response.write('first ')
      setTimeout(() => response.end('second'), 10)
    })
    expect((await bytesOf(http)).toString()).toBe('first second')
    expect(requests).toBe(1)
  })

  it('does not read ahead of a slow consumer', async () => {
    let sent = 0
    const http = await serve((_, response) => {
      const block = randomBytes(65_536)
      response.writeHead(200, { 'content-length': 1024 * block.length })
      const more = () => {
        while (sent < 1024) {
          sent += 1
          if (!response.write(block)) return void response.once('drain', more)
        }
        response.end()
      }
      more()
    })
    const chunks = await download(http)
    await chunks.next()
    await new Promise((resolve) => setTimeout(resolve, 300))
    // The buffers of both sockets and of fetch; 64 MiB would mean that everything was read.
    expect(sent * 65_536).toBeLessThan(24_000_000)
    let rest = 0
    for await (const chunk of chunks) rest += chunk.length
    expect(rest).toBeGreaterThan(60_000_000)
    expect(sent).toBe(1024)
  })

  it('arrives unchanged at a slow consumer that keeps every chunk', async () => {
    const data = randomBytes(4_000_000)
    const http = await serve(async (_, response) => {
      // Small pieces, so that several reads end up in the buffer of a paused connection.
      for (let at = 0; at < data.length; at += 20_000) {
        response.write(data.subarray(at, at + 20_000))
        await new Promise((resolve) => setImmediate(resolve))
      }
      response.end()
    })
    const chunks: Uint8Array[] = []
    for await (const chunk of await download(http)) {
      chunks.push(chunk)
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    expect(hash(Buffer.concat(chunks))).toBe(hash(data))
  })

  it('closes the connection when the consumer stops early', async () => {
    const { promise: closed, resolve } = Promise.withResolvers<void>()
    const http = await serve((request, response) => {
      request.socket.on('close', () => resolve())
      response.writeHead(200, { 'content-length': 10_000_000 })
      response.write(randomBytes(1_000_000))
    })
    for await (const _ of await download(http)) break
    await closed
  })

  it('fails with the daemon’s problem before the first chunk', async () => {
    const http = await serve((_, response) => {
      const body = JSON.stringify({ code: 'file_not_found', detail: 'No such file.' })
      response.writeHead(404, { 'content-type': 'application/problem+json', 'content-length': body.length })
      response.end(body)
    })
    expect(await failureOf(download(http))).toMatchObject({ code: 'file_not_found' })
    expect(await failureOf(download(http))).toMatchObject({ code: 'file_not_found' })
  })

  it.each<[string, string]>([
    ['breaks off in the body', 'HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nhalf'],
    ['breaks off in the head', 'HTTP/1.1 200 OK\r\ncontent-le'],
    ['is not HTTP', '220 mail ready\r\n\r\n'],
  ])('fails when the response %s', async (_, text) => {
    const http = await serveRaw((socket) => socket.end(text))
    expect(await failureOf(bytesOf(http))).toMatchObject({ code: 'connection_lost' })
  })

  it('is cancelled by its signal, before and after the response head', async () => {
    const silent = await serveRaw(() => {})
    expect(await failureOf(download(silent, '/', AbortSignal.timeout(20)))).toMatchObject({
      code: 'aborted',
    })
    const half = await serveRaw((socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nhalf'))
    expect(await failureOf(bytesOf(half, '/', AbortSignal.timeout(50)))).toMatchObject({ code: 'aborted' })
    const unreachable = new Http({ url: `http://127.0.0.1:${await closedPort()}`, apiKey: 'k' })
    expect(await failureOf(download(unreachable))).toMatchObject({ code: 'unavailable' })
  })
})
