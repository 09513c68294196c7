import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { type AddressInfo, createServer as createSocketServer, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { SandboxError } from '../errors.ts'
import { Http } from './http.ts'

const closing: Array<() => void> = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

async function serve(listener: RequestListener): Promise<{ http: Http; server: Server; url: string }> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/below`
  return { server, url, http: new Http({ url, apiKey: 'sk-test' }) }
}

/** A server that writes raw bytes. `count` is the number of the request. */
async function serveRaw(answer: (socket: Socket, count: number) => void): Promise<Http> {
  let count = 0
  const server = createSocketServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', () => answer(socket, ++count))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(() => server.close())
  return new Http({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    apiKey: 'sk-test',
  })
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

describe('short requests', () => {
  it('sends method, URL, headers and body, and returns the response', async () => {
    const { http } = await serve(async (request, response) => {
      let body = ''
      for await (const chunk of request) body += chunk
      const { method, url, headers } = request
      response.setHeader('content-type', 'application/json')
      response.end(
        JSON.stringify({ method, url, body, key: headers.authorization, type: headers['content-type'] }),
      )
    })
    const json = { text: 'größe 🦦', many: 'x'.repeat(200_000) }
    expect(
      await http.json('POST', '/v1/x', { json, query: { a: 'ä b', list: ['1', '2'], none: undefined } }),
    ).toEqual({
      method: 'POST',
      url: '/below/v1/x?a=%C3%A4+b&list=1&list=2',
      body: JSON.stringify(json),
      key: 'Bearer sk-test',
      type: 'application/json',
    })
    expect(await http.json('GET', '/v1/x')).toMatchObject({ method: 'GET', body: '', url: '/below/v1/x' })
    expect(await http.json('POST', '/v1/x')).toMatchObject({ method: 'POST', body: '' })
    expect(await http.json('DELETE', '/v1/x')).toMatchObject({ method: 'DELETE', body: '' })
  })

  it('reuses connections for sequential requests and opens more for concurrent ones', async () => {
    const sockets = new Set<unknown>()
    const { http } = await serve((request, response) => {
      sockets.add(request.socket)
      setTimeout(() => response.end('{}'), 5)
    })
    for (let round = 0; round < 20; round += 1) await http.json('GET', '/')
    // fetch frees a connection a moment after the response, so two may take turns.
    expect(sockets.size).toBeLessThanOrEqual(2)
    for (let round = 0; round < 5; round += 1)
      await Promise.all(Array.from({ length: 8 }, () => http.json('GET', '/')))
    expect(sockets.size).toBeGreaterThanOrEqual(8)
    expect(sockets.size).toBeLessThanOrEqual(16)
  })

  it('opens a new connection after the server has closed the old one', async () => {
    const sockets = new Set<Socket>()
    const { http } = await serve((request, response) => {
      sockets.add(request.socket)
      if (request.url?.endsWith('last')) response.setHeader('connection', 'close')
      response.end('{}')
    })
    await http.json('GET', '/')
    await http.json('GET', '/last')
    await http.json('GET', '/')
    const before = sockets.size
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => setTimeout(resolve, 50))
    await http.json('GET', '/')
    expect(sockets.size).toBe(before + 1)
  })

  it('does not reuse a connection that the server is about to close', async () => {
    const sockets = new Set<unknown>()
    const { http, server } = await serve((request, response) => {
      sockets.add(request.socket)
      response.end('{}')
    })
    server.keepAliveTimeout = 1000
    await http.json('GET', '/')
    await http.json('GET', '/')
    expect(sockets.size).toBe(2)
  })

  it('fails with the daemon’s problem', async () => {
    const { http } = await serve((_, response) => {
      response.writeHead(429, { 'content-type': 'application/problem+json', 'x-request-id': 'r1' })
      response.end(JSON.stringify({ code: 'quota_exceeded', detail: 'Too many.', hint: 'Fewer.' }))
    })
    const error = await failureOf(http.json('POST', '/', { json: {} }))
    expect(error).toMatchObject({
      code: 'quota_exceeded',
      message: 'Too many.',
      hint: 'Fewer.',
      requestId: 'r1',
    })
    expect(SandboxError.is(await failureOf(http.json('GET', '/')), 'quota_exceeded')).toBe(true)
  })

  it('tells an unreachable daemon from a lost connection', async () => {
    const unreachable = new Http({ url: `http://127.0.0.1:${await closedPort()}`, apiKey: 'sk-test' })
    expect(await failureOf(unreachable.json('GET', '/'))).toMatchObject({ code: 'unavailable' })
    const cut = await serveRaw((socket) => socket.destroy())
    expect(await failureOf(cut.json('GET', '/'))).toMatchObject({ code: 'connection_lost' })
    const half = await serveRaw((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{"a"'))
    expect(await failureOf(half.json('GET', '/'))).toMatchObject({ code: 'connection_lost' })
    const strange = await serveRaw((socket) => socket.write('220 mail ready\r\n\r\n'))
    expect(await failureOf(strange.json('GET', '/'))).toMatchObject({ code: 'connection_lost' })
  })

  it('reads JSON whose characters are cut by the chunks of a response', async () => {
    const text = JSON.stringify({ text: 'ä€😀' })
    const { http } = await serve((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      const bytes = [...Buffer.from(text)]
      const next = () => {
        const byte = bytes.shift()
        if (byte === undefined) response.end()
        else response.write(Buffer.of(byte), () => setImmediate(next))
      }
      next()
    })
    expect(await http.json('GET', '/v1/text')).toEqual({ text: 'ä€😀' })
  })

  it.each([
    ['a length', 'content-length: 20\r\n\r\n{"a":1}'],
    ['chunks', 'transfer-encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n'],
  ])('fails when a response with %s breaks off, even where its text is whole', async (_, rest) => {
    const http = await serveRaw((socket) => socket.end(`HTTP/1.1 200 OK\r\n${rest}`))
    await expect(http.json('GET', '/')).rejects.toMatchObject({ code: 'connection_lost' })
  })

  it('never takes an unsolicited response for its own', async () => {
    const ok = (text: string) => `HTTP/1.1 200 OK\r\ncontent-length: ${text.length}\r\n\r\n${text}`
    const http = await serveRaw((socket, count) => {
      socket.write(ok(`{"for":${count}}`))
      // An unsolicited second response.
      if (count === 1) setTimeout(() => socket.write(ok('{"for":"no request"}')), 20)
    })
    expect(await http.json('GET', '/')).toEqual({ for: 1 })
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(await http.json('GET', '/')).toEqual({ for: 2 })
  })

  it('closes the connection when the caller aborts', async () => {
    const { promise: closed, resolve } = Promise.withResolvers<void>()
    const controller = new AbortController()
    const { http } = await serve((request, response) => {
      if (!request.url?.endsWith('slow')) return void response.end('{}')
      request.socket.on('close', () => resolve())
      controller.abort()
    })
    await http.json('GET', '/')
    const call = failureOf(http.json('GET', '/slow', { signal: controller.signal }))
    expect(await call).toMatchObject({ code: 'aborted' })
    await closed
    expect(await http.json('GET', '/')).toEqual({})
  })

  it('refuses header values that are not printable ASCII', async () => {
    const { http } = await serve((_, response) => void response.end('{}'))
    for (const value of ['a\r\nx-admin: 1', 'a\nb', 'a\0b', 'ü'])
      expect(await failureOf(http.json('GET', '/', { headers: { 'idempotency-key': value } }))).toMatchObject(
        {
          code: 'invalid_argument',
        },
      )
  })

  it('does not follow redirects', async () => {
    let requests = 0
    const { http } = await serve((_, response) => {
      requests += 1
      response.writeHead(302, { location: '/elsewhere' }).end()
    })
    expect(await failureOf(http.json('GET', '/'))).toMatchObject({ code: 'invalid_argument' })
    expect(requests).toBe(1)
  })

  it('does not keep the process alive after the response', async () => {
    const { url } = await serve((_, response) => void response.end('{}'))
    const script = `
      import { Http } from ${JSON.stringify(new URL('./http.ts', import.meta.url).href)}
      await new Http({ url: process.argv[1], apiKey: 'k' }).json('GET', '/')
      console.log('answered')`
    const child = spawn(process.execPath, [
      '--conditions=sandkasten-source',
      '--input-type=module',
      '-e',
      script,
      url,
    ])
    let text = ''
    child.stdout.on('data', (chunk) => {
      text += chunk
    })
    const [code] = await once(child, 'exit', { signal: AbortSignal.timeout(15_000) })
    expect({ code, text }).toEqual({ code: 0, text: 'answered\n' })
  })
})
