import { createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream'

/**
 * A port of a sandbox as a port of this machine's loopback: each connection is carried to the runner, which dials
 * inside. It is bytes that are carried, so HTTP, WebSockets and anything else work, and the sandbox needs no network.
 */
export class PortForwards {
  readonly #dial: (port: number) => Promise<Duplex>
  readonly #servers = new Map<number, Promise<Server>>()
  readonly #connections = new Set<Socket>()

  constructor(dial: (port: number) => Promise<Duplex>) {
    this.#dial = dial
  }

  /** The local port that leads to a port of the sandbox; the same one every time. */
  async localPort(port: number): Promise<number> {
    let server = this.#servers.get(port)
    if (!server) {
      server = this.#listen(port)
      this.#servers.set(port, server)
    }
    return ((await server).address() as { port: number }).port
  }

  async close(): Promise<void> {
    const servers = await Promise.allSettled(this.#servers.values())
    this.#servers.clear()
    for (const socket of this.#connections) socket.destroy()
    for (const server of servers) if (server.status === 'fulfilled') server.value.close()
  }

  #listen(port: number): Promise<Server> {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
      this.#connections.add(socket)
      socket.once('close', () => this.#connections.delete(socket))
      void this.#relay(socket, port)
    })
    // Looking at a port does not keep a program alive that has nothing else to do.
    server.unref()
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen(0, '127.0.0.1', () => resolve(server))
    })
  }

  async #relay(socket: Socket, port: number): Promise<void> {
    socket.on('error', () => {})
    let inside: Duplex
    try {
      inside = await this.#dial(port)
    } catch {
      // Nothing listens there: to the caller the same as a refused connection.
      socket.resetAndDestroy()
      return
    }
    pipeline(socket, inside, () => {})
    pipeline(inside, socket, () => {})
  }
}
