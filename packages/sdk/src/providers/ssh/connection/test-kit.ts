import { connect, createServer, type Server, type Socket } from 'node:net'

/** What becomes of bytes on their way. */
export type WireFault =
  /** They come later, and together with what came after them. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** They come, and the connection ends. */
  | { readonly kind: 'cut' }
  /** They come twice. */
  | { readonly kind: 'duplicate' }
  /** One of them is another. */
  | { readonly kind: 'corrupt' }
  /** Neither they nor anything after them comes, in both directions; the connection stays. */
  | { readonly kind: 'silence' }

export interface WireRule {
  readonly to: 'host' | 'client'
  /** How many bytes of a connection pass unharmed, from now on. Default 0. */
  readonly after?: number
  readonly fault: WireFault
}

/** A wire between a client and a host: passes on what comes, except what the rule says, once. */
export class FaultWire implements AsyncDisposable {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #rule: { left: number; rule: WireRule } | undefined
  /** What the host says is kept until it has said nothing for so long, and comes in one piece. */
  gatherMs = 0

  private constructor(server: Server) {
    this.#server = server
  }

  static async to(port: number): Promise<FaultWire> {
    const server = createServer()
    const wire = new FaultWire(server)
    server.on('connection', (client) =>
      wire.#carry(client, connect({ port, host: '127.0.0.1', noDelay: true })),
    )
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return wire
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port
  }

  /** From now on, for the next bytes that it is about. */
  rule(rule: WireRule): void {
    this.#rule = { left: rule.after ?? 0, rule }
  }

  /** Whether what the rule says has happened. */
  get harmed(): boolean {
    return this.#rule === undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #carry(client: Socket, host: Socket): void {
    client.setNoDelay(true)
    for (const socket of [client, host]) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.once('close', () => this.#sockets.delete(socket))
    }
    client.once('close', () => host.destroy())
    host.once('close', () => setTimeout(() => client.destroy(), this.gatherMs))
    client.on('data', (data) => this.#pass(data, 'host', client, host))
    const kept: Buffer[] = []
    let quiet: NodeJS.Timeout | undefined
    host.on('data', (data: Buffer) => {
      if (this.gatherMs === 0) return this.#pass(data, 'client', host, client)
      kept.push(data)
      clearTimeout(quiet)
      quiet = setTimeout(() => client.write(Buffer.concat(kept.splice(0))), this.gatherMs)
    })
  }

  #pass(data: Buffer, to: 'host' | 'client', from: Socket, target: Socket): void {
    const due = this.#rule
    if (due?.rule.to !== to) return void target.write(data)
    due.left -= data.length
    if (due.left > 0) return void target.write(data)
    this.#rule = undefined
    const { fault } = due.rule
    if (fault.kind === 'delay') {
      from.pause()
      setTimeout(() => {
        target.write(data)
        from.resume()
      }, fault.ms)
    } else if (fault.kind === 'cut') {
      target.write(data, () => {
        from.destroy()
        target.destroy()
      })
    } else if (fault.kind === 'duplicate') target.write(Buffer.concat([data, data]))
    else if (fault.kind === 'corrupt') {
      const changed = Buffer.from(data)
      changed[changed.length >> 1]! ^= 0x55
      target.write(changed)
    } else for (const socket of [from, target]) socket.pause()
  }
}
