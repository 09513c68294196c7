import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** What goes wrong with one request. */
export type Fault =
  /** Answered here; the server never sees it. */
  | {
      readonly kind: 'answer'
      readonly status: number
      readonly headers?: Record<string, string>
      readonly body: string
    }
  /** Nothing, for as long as the client waits. */
  | { readonly kind: 'silence' }
  | { readonly kind: 'delay'; readonly ms: number }
  /** The connection ends before the server has seen it, or after it has done what was asked. */
  | { readonly kind: 'cut-before' }
  | { readonly kind: 'cut-after' }
  /** The first half of the answer, or one with other bytes in it. */
  | { readonly kind: 'half' }
  | { readonly kind: 'corrupt' }
  /** The server gets it twice, and the second answer counts. */
  | { readonly kind: 'duplicate' }

export interface FaultRule {
  readonly fault: Fault
  /** Which requests: `POST /path`, as a pattern. */
  readonly on: RegExp
  /** How many of them. Default 1. */
  readonly times?: number
  /** How many of them first pass unharmed. */
  readonly after?: number
}

/** Between a client and a server: passes everything on, except what the rules say. */
export class FaultProxy {
  readonly #server = createServer((incoming, answer) => void this.#handle(incoming, answer))
  readonly #open = new Set<Socket>()
  #rules: Array<FaultRule & { seen: number }> = []
  /** Where it passes on to. */
  target = ''
  url = ''
  /** What the server was asked, in order. */
  readonly passed: string[] = []

  static async start(): Promise<FaultProxy> {
    const proxy = new FaultProxy()
    proxy.#server.on('connection', (socket) => {
      proxy.#open.add(socket)
      socket.once('close', () => proxy.#open.delete(socket))
    })
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve))
    proxy.url = `http://127.0.0.1:${(proxy.#server.address() as { port: number }).port}`
    return proxy
  }

  /** From now on these go wrong, and none of before. */
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

  #faultOf(line: string): Fault | undefined {
    for (const rule of this.#rules) {
      if (!rule.on.test(line)) continue
      rule.seen += 1
      const { after = 0, times = 1 } = rule
      if (rule.seen > after && rule.seen <= after + times) return rule.fault
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
    if (fault?.kind === 'delay') await new Promise((resolve) => setTimeout(resolve, fault.ms))
    try {
      if (fault?.kind === 'duplicate') await this.#pass(incoming, line, body)
      const got = await this.#pass(incoming, line, body)
      if (fault?.kind === 'cut-after') return void answer.destroy()
      const { 'transfer-encoding': _, ...headers } = got.headers
      const content = fault?.kind === 'corrupt' ? corrupted(got.body) : got.body
      answer.writeHead(got.status, { ...headers, 'content-length': String(content.length) })
      if (fault?.kind !== 'half') return void answer.end(content)
      answer.write(content.subarray(0, Math.ceil(content.length / 2)), () => answer.destroy())
    } catch {
      answer.destroy()
    }
  }

  #pass(
    { method, url, headers }: IncomingMessage,
    line: string,
    body: Buffer,
  ): Promise<{ status: number; headers: IncomingMessage['headers']; body: Buffer }> {
    this.passed.push(line)
    return new Promise((resolve, reject) => {
      const { 'transfer-encoding': _, ...rest } = headers
      const outgoing = request(
        `${this.target}${url}`,
        { method, headers: { ...rest, 'content-length': String(body.length) }, agent: false },
        async (got) =>
          resolve({ status: got.statusCode ?? 0, headers: got.headers, body: await this.#renamed(got) }),
      )
      outgoing.on('error', reject)
      outgoing.end(body)
    })
  }

  /** Addresses that the server names are ours, so that the client comes back through here. */
  async #renamed(got: IncomingMessage): Promise<Buffer> {
    const body = await bytesOf(got)
    if (!got.headers['content-type']?.includes('json')) return body
    return Buffer.from(body.toString().replaceAll(this.target, this.url))
  }
}

/** What came of it, even if it breaks off. */
async function bytesOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of message) chunks.push(chunk as Buffer)
  } catch {
    // The other side went away.
  }
  return Buffer.concat(chunks)
}

function corrupted(body: Buffer): Buffer {
  const copy = Buffer.from(body)
  for (let at = 0; at < copy.length; at += 3) copy[at] = 0x23
  return copy
}
