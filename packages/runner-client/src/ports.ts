/** Ports inside the sandbox: relayed connections, and the list of listening ports. */
import { Duplex } from 'node:stream'
import { type CallOptions, call, checked, opened } from './calls.ts'
import type { CborMap } from './cbor.ts'
import type { RunnerConnection } from './connection.ts'
import { ProtocolError } from './errors.ts'
import { int, maps, text } from './schema.ts'
import type { RunnerStream } from './stream.ts'

export interface ListeningPort {
  port: number
  address: string
  uid: number
}

export interface PortsChange {
  opened: ListeningPort[]
  closed: ListeningPort[]
}

/** Connects to a port on the sandbox's loopback. Backpressure holds in both directions. */
export async function dial(
  connection: RunnerConnection,
  port: number,
  options: CallOptions = {},
): Promise<Duplex> {
  const stream = connection.request('dial', { port }, { content: true })
  await opened(connection, stream, () => undefined, options)
  return new DialledSocket(stream)
}

export function listPorts(connection: RunnerConnection, options: CallOptions = {}): Promise<ListeningPort[]> {
  return call(connection, 'ports', {}, (body) => maps(body, 'ports').map(portOf), options)
}

/** The listening ports, and then every change. */
export async function watchPorts(
  connection: RunnerConnection,
  options: CallOptions = {},
): Promise<{ ports: ListeningPort[]; changes: AsyncGenerator<PortsChange, void, void> }> {
  const stream = connection.request('ports.watch', {})
  const ports = await opened(connection, stream, (body) => maps(body, 'ports').map(portOf), options)
  return { ports, changes: changesOf(connection, stream) }
}

async function* changesOf(
  connection: RunnerConnection,
  stream: RunnerStream,
): AsyncGenerator<PortsChange, void, void> {
  try {
    for (;;) {
      const item = await stream.next()
      if (item === undefined) return
      if (item.type !== 'event')
        throw connection.violated(new ProtocolError('out_of_order', 'content on a watch of ports'))
      yield checked(
        connection,
        (body) => ({ opened: maps(body, 'opened').map(portOf), closed: maps(body, 'closed').map(portOf) }),
        item.body,
      )
    }
  } finally {
    stream.cancel()
  }
}

function portOf(body: CborMap): ListeningPort {
  const port = int(body, 'port')
  if (port < 1 || port > 65_535) throw new ProtocolError('malformed', 'an invalid port')
  return { port, address: text(body, 'address').slice(0, 64), uid: int(body, 'uid') }
}

class DialledSocket extends Duplex {
  readonly #stream: RunnerStream
  #reading = false

  constructor(stream: RunnerStream) {
    // Like net.connect: when the far side ends, this side ends too. Ending first and reading on is possible.
    super({ allowHalfOpen: false })
    this.#stream = stream
    // The far side may close the connection while no reader is attached.
    stream.done.then(
      () => {},
      (error: Error) => this.destroy(error),
    )
  }

  override _read(): void {
    if (this.#reading) return
    this.#reading = true
    void this.#fill()
  }

  async #fill(): Promise<void> {
    try {
      let wanted = true
      while (wanted) {
        const item = await this.#stream.next()
        if (item === undefined) {
          this.push(null)
          break
        }
        if (item.type === 'data') wanted = this.push(item.data)
      }
    } catch (error) {
      this.destroy(error as Error)
    }
    this.#reading = false
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: (error?: Error | null) => void): void {
    this.#stream.write(chunk).then(() => callback(), callback)
  }

  override _final(callback: (error?: Error | null) => void): void {
    this.#stream.end().then(() => callback(), callback)
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#stream.cancel()
    callback(error)
  }
}
