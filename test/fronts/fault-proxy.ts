import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import type { Duplex, Writable } from 'node:stream'

export type Fault =
  /** Answered by the proxy; the server does not see the request. */
  | {
      readonly kind: 'answer'
      readonly status: number
      readonly headers?: Record<string, string>
      readonly body: string
    }
  /** No response while the client waits. */
  | { readonly kind: 'silence' }
  | { readonly kind: 'delay'; readonly ms: number }
  /** The connection ends before the server has seen the request, or after it was carried out. */
  | { readonly kind: 'cut-before' }
  | { readonly kind: 'cut-after' }
  /** The first half of the response, or a corrupted one: every third byte, or a replacement. */
  | { readonly kind: 'half' }
  | { readonly kind: 'corrupt'; readonly from?: string; readonly to?: string }
  /** This many bytes of the response; then the connection ends or stalls. */
  | { readonly kind: 'cut-at'; readonly bytes: number }
  | { readonly kind: 'stall-at'; readonly bytes: number }
  /** All other connections end before the server sees the request. */
  | { readonly kind: 'cut-others' }
  /** The server gets the request twice, and the second response is used. A WebSocket's server sends everything twice. */
  | { readonly kind: 'duplicate' }

export interface FaultRule {
  readonly fault: Fault
  /** Matches `POST /path`; a WebSocket is `UPGRADE /path`. */
  readonly on: RegExp
  /** How many requests. Default 1. */
  readonly times?: number
  /** How many requests pass first. */
  readonly after?: number
}

/** A proxy between a client and a server that applies faults by rules. */
export class FaultProxy {
  readonly #server = createServer((incoming, answer) => {
    this.#handle(incoming, answer).catch(() => answer.destroy())
  })
  readonly #open = new Set<Socket>()
  #rules: Array<FaultRule & { seen: number }> = []
  target = ''
  url = ''
  /** The requests that reached the server, in order. */
  readonly passed: string[] = []

  static async start(): Promise<FaultProxy> {
    const proxy = new FaultProxy()
    proxy.#server.on('connection', (socket) => proxy.#keep(socket))
    proxy.#server.on('upgrade', (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
      proxy.#tunnel(incoming, socket, head).catch(() => socket.destroy())
    })
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve))
    proxy.url = `http://127.0.0.1:${(proxy.#server.address() as { port: number }).port}`
    return proxy
  }

  rules(...rules: FaultRule[]): void {
    this.#rules = rules.map((rule) => ({ ...rule, seen: 0 }))
    this.passed.length = 0
  }

  count(pattern: RegExp): number {
    return this.passed.filter((line) => pattern.test(line)).length
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const socket of this.#open) socket.destroy()
    await closed
  }

  #keep(socket: Socket): void {
    this.#open.add(socket)
    socket.once('close', () => this.#open.delete(socket))
  }

  #faultOf(line: string): Fault | undefined {
    for (const rule of this.#rules) {
      const { after = 0, times = 1 } = rule
      if (!rule.on.test(line) || rule.seen >= after + times) continue
      rule.seen += 1
      if (rule.seen > after) return rule.fault
    }
    return undefined
  }

  async #handle(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    const line = `${incoming.method} ${incoming.url?.split('?')[0]}`
    const fault = this.#faultOf(line)
    const body = await bytesOf(incoming)
    if (fault?.kind === 'silence') return
    if (fault?.kind === 'cut-before') return void answer.destroy()
    if (fault?.kind === 'answer')
      return void answer
        .writeHead(fault.status, { 'content-type': 'text/html', ...fault.headers })
        .end(fault.body)
    if (fault?.kind === 'cut-others')
      for (const socket of this.#open) if (socket !== incoming.socket) socket.destroy()
    if (fault?.kind === 'delay') await new Promise((resolve) => setTimeout(resolve, fault.ms))
    if (fault?.kind === 'duplicate') await bytesOf(await this.#pass(incoming, line, body))
    const got = await this.#pass(incoming, line, body)
    answer.once('close', () => got.destroy())
    if (fault?.kind === 'cut-after') {
      await bytesOf(got)
      return void answer.destroy()
    }
    const whole = fault?.kind === 'half' || fault?.kind === 'corrupt' || isJson(got)
    if (whole) return this.#sendWhole(got, answer, fault)
    return sendAsItComes(got, answer, fault)
  }

  /** A WebSocket: bytes in both directions. Faults apply to what the server sends after its head. */
  async #tunnel({ method, url, rawHeaders }: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    const line = `UPGRADE ${url?.split('?')[0]}`
    const fault = this.#faultOf(line)
    client.on('error', () => client.destroy())
    if (fault?.kind === 'silence') return
    if (fault?.kind === 'cut-before') return void client.destroy()
    if (fault?.kind === 'answer')
      return void client.end(
        `HTTP/1.1 ${fault.status} No\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n${fault.body}`,
      )
    if (fault?.kind === 'delay') await new Promise((resolve) => setTimeout(resolve, fault.ms))
    this.passed.push(line)
    const { hostname, port } = new URL(this.target)
    const server = connect(Number(port), hostname)
    this.#keep(server)
    server.on('error', () => client.destroy())
    server.once('close', () => client.destroy())
    client.once('close', () => server.destroy())
    const headers = Array.from({ length: rawHeaders.length / 2 }, (_, at) =>
      rawHeaders.slice(at * 2, at * 2 + 2).join(': '),
    )
    server.write(`${method} ${url} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`)
    server.write(head)
    client.pipe(server)
    await sendFrames(server, client, fault)
  }

  async #sendWhole(got: IncomingMessage, answer: ServerResponse, fault: Fault | undefined): Promise<void> {
    const { 'transfer-encoding': _, 'content-length': __, ...headers } = got.headers
    const body = this.#renamed(got, await bytesOf(got))
    const content = fault?.kind === 'corrupt' ? corrupted(body, fault) : body
    answer.writeHead(got.statusCode ?? 502, { ...headers, 'content-length': String(content.length) })
    const cut = fault?.kind === 'half' || fault?.kind === 'cut-at' || fault?.kind === 'stall-at'
    if (!cut) return void answer.end(content)
    const bytes = fault.kind === 'half' ? Math.ceil(content.length / 2) : fault.bytes
    answer.write(content.subarray(0, bytes), () => fault.kind !== 'stall-at' && answer.destroy())
  }

  #pass({ method, url, headers }: IncomingMessage, line: string, body: Buffer): Promise<IncomingMessage> {
    this.passed.push(line)
    return new Promise((resolve, reject) => {
      const { 'transfer-encoding': _, ...rest } = headers
      const length = body.length > 0 ? { 'content-length': String(body.length) } : {}
      const options = { method, headers: { ...rest, ...length }, agent: false as const }
      const outgoing = request(`${this.target}${url}`, options, resolve)
      outgoing.on('error', reject)
      outgoing.end(body)
    })
  }

  /** Replaces the server's addresses by ours, so that the client returns through the proxy. */
  #renamed(got: IncomingMessage, body: Buffer): Buffer {
    return isJson(got) ? Buffer.from(body.toString().replaceAll(this.target, this.url)) : body
  }
}

async function sendAsItComes(
  got: IncomingMessage,
  answer: ServerResponse,
  fault: Fault | undefined,
): Promise<void> {
  const { 'transfer-encoding': _, ...headers } = got.headers
  answer.writeHead(got.statusCode ?? 502, headers)
  answer.flushHeaders()
  let left = fault?.kind === 'cut-at' || fault?.kind === 'stall-at' ? fault.bytes : Infinity
  for await (const chunk of got as AsyncIterable<Buffer>) {
    if (chunk.length > left) {
      answer.write(chunk.subarray(0, left), () => fault?.kind === 'cut-at' && answer.destroy())
      return
    }
    left -= chunk.length
    if (!answer.write(chunk)) await drainedOrClosed(answer)
  }
  if (fault?.kind === 'cut-at') answer.destroy()
  else if (fault?.kind !== 'stall-at') answer.end()
}

/** Removes both listeners on the first event. Racing two `once` would leak one for every chunk. */
function drainedOrClosed(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      stream.off('drain', settle).off('close', settle)
      resolve()
    }
    stream.on('drain', settle).on('close', settle)
    if (stream.destroyed) settle()
  })
}

async function sendFrames(server: Socket, client: Duplex, fault: Fault | undefined): Promise<void> {
  let upgraded = false
  let left = fault?.kind === 'cut-at' || fault?.kind === 'stall-at' ? fault.bytes : Infinity
  for await (const chunk of server as AsyncIterable<Buffer>) {
    // The head is short and arrives in one chunk.
    const end = upgraded ? 0 : chunk.indexOf('\r\n\r\n') + 4
    upgraded = true
    const body = fault?.kind === 'corrupt' ? corrupted(chunk.subarray(end), fault) : chunk.subarray(end)
    client.write(chunk.subarray(0, end))
    if (body.length > left) {
      client.write(body.subarray(0, left), () => fault?.kind === 'cut-at' && client.destroy())
      return
    }
    left -= body.length
    const sent = fault?.kind === 'duplicate' ? Buffer.concat([body, body]) : body
    if (!client.write(sent)) await drainedOrClosed(client)
  }
  client.end()
}

function isJson({ headers }: IncomingMessage): boolean {
  return /^application\/(problem\+)?json/.test(headers['content-type'] ?? '')
}

/** The bytes received, even if the stream breaks. */
async function bytesOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of message) chunks.push(chunk as Buffer)
  } catch {
    // The other side closed the connection.
  }
  return Buffer.concat(chunks)
}

function corrupted(body: Buffer, { from, to }: { from?: string; to?: string }): Buffer {
  if (from !== undefined) return Buffer.from(body.toString('latin1').replaceAll(from, to ?? ''), 'latin1')
  const copy = Buffer.from(body)
  for (let at = 0; at < copy.length; at += 3) copy[at] = 0x23
  return copy
}
