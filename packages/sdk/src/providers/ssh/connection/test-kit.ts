import { connect, createServer, type Server, type Socket } from 'node:net'

/** A fault that the wire applies to passing bytes. */
export type WireFault =
  /** Delays the bytes, and delivers them together with later ones. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** Delivers the bytes, then closes the connection. */
  | { readonly kind: 'cut' }
  /** Delivers the bytes twice. */
  | { readonly kind: 'duplicate' }
  /** Changes one byte. */
  | { readonly kind: 'corrupt' }
  /** Drops these and all later bytes in both directions, and keeps the connection open. */
  | { readonly kind: 'silence' }

export interface WireRule {
  readonly to: 'host' | 'client'
  /** How many bytes pass before the fault. Default 0. */
  readonly after?: number
  readonly fault: WireFault
}

/** A proxy between a client and a host that applies the fault of one rule once. */
export class FaultWire implements AsyncDisposable {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #rule: { left: number; rule: WireRule } | undefined
  /** Buffers the host's bytes until it has sent nothing for this long, then delivers them in one piece. */
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

  /** Applies to the next matching bytes. */
  rule(rule: WireRule): void {
    this.#rule = { left: rule.after ?? 0, rule }
  }

  /** Whether the fault has been applied. */
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
