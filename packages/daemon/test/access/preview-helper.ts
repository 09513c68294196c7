import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingHttpHeaders, request } from 'node:http'
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import { eventsOf, type TestDaemon } from '../../src/testing/daemon.ts'

/**
 * A server that runs in a sandbox: echoes requests (`/echo`), receives and sends large bodies (`/sum`, `/big`), and has
 * events (`/events`), WebSockets and hostile responses.
 */
const program = `
import { createServer } from 'node:http'
import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
const { WebSocketServer } = createRequire(WS)('ws')
const server = createServer(async (request, response) => {
  const url = new URL(request.url, 'http://x')
  if (url.pathname === '/big') {
    response.writeHead(200, { 'content-type': 'application/octet-stream' })
    const chunk = Buffer.alloc(65536, 97)
    for (let left = Number(url.searchParams.get('bytes')); left > 0; left -= chunk.length)
      if (!response.write(chunk.subarray(0, Math.min(left, chunk.length)))) await new Promise((r) => { response.once('drain', r); response.once('close', r) })
    return response.end()
  }
  if (url.pathname === '/events') {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: first\\n\\n')
    return void request.on('close', () => {})
  }
  if (url.pathname === '/early') return response.writeHead(413).end('too much')
  if (url.pathname === '/cookies')
    return response.writeHead(200, { 'set-cookie': ['a=1; Domain=localhost; Path=/', 'sandkasten-preview=x', 'b=2; HttpOnly'], 'strict-transport-security': 'max-age=9', 'clear-site-data': '"cookies"', 'x-app': 'yes' }).end()
  if (url.pathname === '/redirect') return response.writeHead(302, { location: 'http://localhost:' + server.address().port + '/there?x=1' }).end()
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of request) { hash.update(chunk); bytes += chunk.length }
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ method: request.method, url: request.url, headers: request.headers, bytes, sha256: hash.digest('hex') }))
})
new WebSocketServer({ server }).on('connection', (socket, request) => {
  socket.send(request.url)
  socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
})
server.listen(Number(process.argv[2]), '127.0.0.1', () => console.log(server.address().port))
`

export interface Inside {
  readonly id: string
  readonly port: number
}

/** Creates a session with the server. The system chooses the port, because without isolation it is the machine's. */
export async function sessionWithServer(daemon: TestDaemon, body: object = {}): Promise<Inside> {
  const id = await daemon.session({ ...body })
  return { id, port: await startServer(daemon, id) }
}

export async function startServer(daemon: TestDaemon, id: string, port = 0): Promise<number> {
  const ws = JSON.stringify(createRequire(import.meta.url).resolve('ws'))
  const text = program.replaceAll('WS)', `${ws})`)
  await daemon.call('POST', `/v1/sessions/${id}/fs/write`, { path: 'server.mjs', content: text })
  const run = {
    cmd: process.execPath,
    args: ['server.mjs', String(port)],
    exec_id: randomUUID(),
    detach: true,
  }
  const started = await daemon.call('POST', `/v1/sessions/${id}/run`, run)
  if (started.status >= 300) throw new Error(`the server was not started: ${JSON.stringify(started.body)}`)
  let said = ''
  for await (const { event, data } of eventsOf(
    await daemon.fetch(`/v1/sessions/${id}/execs/${run.exec_id}/output?after=0`),
  )) {
    said += data.text ?? ''
    if (event === 'stdout' && said.includes('\n')) return Number(said)
  }
  throw new Error(`the server ended: ${said}`)
}

export interface Got {
  status: number
  headers: IncomingHttpHeaders
  text: string
}

/** Sends a request to the preview listener, with any host name. */
export async function visit(
  daemon: TestDaemon,
  where: { host?: string; path?: string; method?: string; headers?: Record<string, string>; body?: string },
): Promise<Got> {
  const { port, host } = new URL(daemon.daemon.previewUrl!)
  const outgoing = request({
    host: '127.0.0.1',
    port: Number(port),
    path: where.path ?? '/',
    method: where.method ?? 'GET',
    headers: { host: where.host ?? host, ...where.headers },
    agent: false,
  })
  outgoing.end(where.body)
  const [response] = await once(outgoing, 'response')
  let text = ''
  for await (const chunk of response) text += chunk
  return { status: response.statusCode, headers: response.headers, text }
}

/** Sends raw bytes and returns all data until the connection ends. */
export async function raw(daemon: TestDaemon, bytes: string): Promise<string> {
  const socket = connect(Number(new URL(daemon.daemon.previewUrl!).port), '127.0.0.1')
  socket.write(bytes, 'latin1')
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
  })
  socket.on('error', () => {})
  await once(socket, 'close')
  return text
}
