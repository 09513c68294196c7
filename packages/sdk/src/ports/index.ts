import { createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream'
import { SandboxError } from '../errors.ts'

/** Listeners of one sandbox. A further one closes the least recently used listener without connections. */
const mostListeners = 64
/** Maximum number of connections of one sandbox. */
const mostConnections = 240

/**
 * Forwards ports of a sandbox to ports on this machine's loopback. Each connection is relayed as bytes through `dial`, so
 * every protocol works, and the sandbox needs no network.
 *
 * Every user of this machine can connect while a listener is open. The daemon has no listeners: it dials the runner.
 */
export class PortForwards {
  readonly #dial: (port: number) => Promise<Duplex>
  /** Least recently used first. */
  readonly #listeners = new Map<number, Listener>()
  readonly #connections = new Set<Socket>()

  constructor(dial: (port: number) => Promise<Duplex>) {
    this.#dial = dial
  }

  /** The local port of a sandbox's port. It stays the same while its listener is open. */
  async localPort(port: number): Promise<number> {
    const known = this.#listeners.get(port)
    this.#listeners.delete(port)
    if (!known) this.#makeRoom()
    const listener = known ?? this.#listen(port)
    this.#listeners.set(port, listener)
    try {
      await listener.listening
    } catch (error) {
      if (this.#listeners.get(port) === listener) this.#listeners.delete(port)
      throw error
    }
    return (listener.server.address() as { port: number }).port
  }

  async close(): Promise<void> {
    const listeners = [...this.#listeners.values()]
    this.#listeners.clear()
    for (const socket of this.#connections) socket.destroy()
    await Promise.allSettled(listeners.map(({ listening }) => listening))
    for (const { server } of listeners) server.close()
  }

  #makeRoom(): void {
    if (this.#listeners.size < mostListeners) return
    for (const [port, { server, connections }] of this.#listeners) {
      if (connections > 0) continue
      this.#listeners.delete(port)
      server.close()
      return
    }
    throw new SandboxError('rate_limited', `The sandbox has connections on ${mostListeners} ports.`, {
      hint: 'Close some of them.',
    })
  }

  #listen(port: number): Listener {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
      if (this.#connections.size >= mostConnections) return void socket.resetAndDestroy()
      this.#connections.add(socket)
      listener.connections += 1
      socket.once('close', () => {
        this.#connections.delete(socket)
        listener.connections -= 1
      })
      void this.#relay(socket, port)
    })
    // A listener does not keep the process alive.
    server.unref()
    const listening = new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(0, '127.0.0.1', resolve)
    })
    const listener: Listener = { server, listening, connections: 0 }
    return listener
  }

  async #relay(socket: Socket, port: number): Promise<void> {
    socket.on('error', () => {})
    let inside: Duplex
    try {
      inside = await this.#dial(port)
    } catch {
      // Nothing listens there: close as if the connection was refused.
      socket.resetAndDestroy()
      return
    }
    pipeline(socket, inside, () => {})
    pipeline(inside, socket, () => {})
  }
}

interface Listener {
  readonly server: Server
  readonly listening: Promise<void>
  connections: number
}
