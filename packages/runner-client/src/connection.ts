/**
 * A connection to a runner over any byte stream: handshake, concurrent requests, flow control in both directions.
 *
 * All input is hostile. The first violation ends the connection with a GOODBYE and fails every stream with one error. Nothing
 * is skipped or repaired. All buffers are bounded: one frame in the parser, one window per stream, the cancelled streams
 * without a response, and the data for a runner that does not read. Received bytes are valid only while they are handled,
 * so they are copied to be kept.
 */
import type { Duplex } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import { type CborMap, decodeMap, encodeCbor } from './cbor.ts'
import { connectionLost, fromErrorBody, ProtocolError, timedOut } from './errors.ts'
import {
  decodeOutput,
  encodeFrame,
  encodeHello,
  encodeWindow,
  type Frame,
  FrameParser,
  FrameType,
  major,
} from './frame.ts'
import { bytes, int, text } from './schema.ts'
import { type Lender, RunnerStream, type StreamHost, type StreamOptions } from './stream.ts'

export interface ConnectOptions {
  /** The timeout of the handshake. Default 10 s. */
  timeoutMs?: number
  signal?: AbortSignal
}

export interface Welcome {
  major: number
  minor: number
  /** The runner's pid in its own namespace. */
  pid: number
  /** Identifies the runner process. After a change, the state of the old runner is gone. */
  boot: string
}

/** The most cancelled streams without a response. With more, the runner counts as unresponsive. */
const maxUnanswered = 256
/**
 * The most frames and bytes that wait to be sent. Streams wait for the runner's credit, so only a runner that sends without
 * reading reaches this limit: each PING causes a PONG, and each quarter of a window a WINDOW.
 */
const maxQueuedFrames = 8192
const maxQueuedBytes = 32 * 1024 * 1024

export class RunnerConnection implements StreamHost {
  readonly welcome: Welcome
  /** Resolves when the connection has ended, with the reason if there is one. Never rejects. */
  readonly closed: Promise<Error | undefined>
  readonly #socket: Duplex
  readonly #streams: Map<number, RunnerStream>
  readonly #pings: ((body: Buffer) => void)[]
  readonly #state: ConnectionState
  #lastStream = 0
  #unanswered = new Set<number>()
  #drained: Promise<void> | undefined

  private constructor(socket: Duplex, welcome: Welcome, state: ConnectionState) {
    this.#socket = socket
    this.welcome = welcome
    this.#state = state
    this.#streams = state.streams
    this.#pings = state.pings
    this.closed = state.closed
    state.answered = (id) => this.#unanswered.delete(id)
  }

  /** Performs the handshake. On failure the stream is destroyed. */
  static async connect(socket: Duplex, options: ConnectOptions = {}): Promise<RunnerConnection> {
    const timeoutMs = options.timeoutMs ?? 10_000
    const state = new ConnectionState(socket)
    const abort = (): void =>
      state.end(new SandboxError('aborted', 'connecting was aborted', { cause: options.signal?.reason }))
    if (options.signal?.aborted) abort()
    options.signal?.addEventListener('abort', abort, { once: true })
    const timer = setTimeout(() => state.end(timedOut('the handshake with the runner', timeoutMs)), timeoutMs)
    try {
      socket.write(encodeHello())
      const welcome = await state.welcomed
      return new RunnerConnection(socket, welcome, state)
    } finally {
      clearTimeout(timer)
      options.signal?.removeEventListener('abort', abort)
    }
  }

  get ended(): boolean {
    return this.#state.ended
  }

  /** Sends a request with the body `{ op, … }`. Failures arrive on the stream. */
  request(op: string, body: CborMap, options: StreamOptions = {}): RunnerStream {
    const id = ++this.#lastStream
    const stream = new RunnerStream(this, id, op, options)
    const encoded = encodeCbor({ op, ...body })
    if (this.#state.ended) stream.fail(this.#state.reason ?? connectionLost())
    else {
      let frame: Buffer
      try {
        frame = encodeFrame(FrameType.request, id, encoded)
      } catch (cause) {
        stream.fail(new SandboxError('too_large', `${op}: the request is larger than a frame`, { cause }))
        return stream
      }
      this.#streams.set(id, stream)
      holdProcess(this.#socket, true)
      this.#state.send(frame)
    }
    return stream
  }

  /** The round-trip time. Rejects if the runner does not respond in time. */
  async ping(timeoutMs = 10_000): Promise<void> {
    if (this.#state.ended) throw this.#state.reason ?? connectionLost()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const timer = setTimeout(() => reject(timedOut('ping', timeoutMs)), timeoutMs)
    void this.closed.then((error) => reject(error ?? connectionLost()))
    this.#pings.push(() => resolve())
    this.#state.send(encodeFrame(FrameType.ping, 0, Buffer.alloc(8)))
    try {
      await promise
    } finally {
      clearTimeout(timer)
    }
  }

  /** Reports an invalid body: the runner broke the protocol, and the connection ends. */
  violated(error: ProtocolError): Error {
    this.#state.end(error)
    return this.#state.reason ?? error
  }

  /** Ends the connection. Programs continue. */
  close(): void {
    if (this.#state.ended) return
    this.#socket.write(encodeFrame(FrameType.goodbye, 0, encodeCbor({ code: 'bye', message: 'done' })))
    this.#state.end(undefined)
  }

  sendData(stream: number, data: Uint8Array): Promise<void> | undefined {
    if (this.#state.ended) return undefined
    if (this.#state.send(encodeFrame(FrameType.data, stream, data))) return undefined
    this.#drained ??= new Promise((resolve) => {
      const settle = (): void => {
        this.#drained = undefined
        this.#socket.off('drain', settle)
        this.#socket.off('close', settle)
        resolve()
      }
      this.#socket.once('drain', settle)
      this.#socket.once('close', settle)
    })
    return this.#drained
  }

  sendEnd(stream: number): void {
    if (!this.#state.ended) this.#state.send(encodeFrame(FrameType.end, stream))
  }

  sendCancel(stream: number): void {
    if (this.#state.ended || this.#unanswered.has(stream)) return
    this.#state.send(encodeFrame(FrameType.cancel, stream))
    this.#unanswered.add(stream)
    if (this.#unanswered.size > maxUnanswered) {
      this.#state.end(new ProtocolError('unresponsive', 'the runner does not answer cancelled requests'))
    }
  }

  sendWindow(stream: number, size: number): void {
    if (!this.#state.ended) this.#state.send(encodeWindow(stream, size))
  }

  lend(on: boolean): void {
    lenderOf(this.#socket).lend?.(on)
  }

  keep(): (() => void) | undefined {
    return lenderOf(this.#socket).keep?.()
  }
}

/** The receiving half. It works from the first byte, before the handshake is complete. */
class ConnectionState {
  readonly streams = new Map<number, RunnerStream>()
  readonly pings: ((body: Buffer) => void)[] = []
  readonly welcomed: Promise<Welcome>
  readonly closed: Promise<Error | undefined>
  answered: (id: number) => void = () => {}
  ended = false
  reason: Error | undefined
  readonly #socket: Duplex
  readonly #parser = new FrameParser()
  #welcome: ((welcome: Welcome) => void) | undefined
  #refuse!: (error: Error) => void
  #close!: (error: Error | undefined) => void
  #queuedFrames = 0
  readonly #sent = () => {
    this.#queuedFrames -= 1
  }

  constructor(socket: Duplex) {
    this.#socket = socket
    this.welcomed = new Promise((resolve, reject) => {
      this.#welcome = resolve
      this.#refuse = reject
    })
    this.welcomed.catch(() => {})
    this.closed = new Promise((resolve) => {
      this.#close = resolve
    })
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
    socket.on('error', (error) => this.end(connectionLost(error)))
    socket.on('end', () =>
      this.end(
        connectionLost(
          this.#parser.torn > 0 ? new ProtocolError('torn', 'the runner ended within a frame') : undefined,
        ),
      ),
    )
    socket.on('close', () => this.end(connectionLost()))
  }

  /** Returns false when the caller should wait for `drain`. */
  send(frame: Buffer): boolean {
    this.#queuedFrames += 1
    const room = this.#socket.write(frame, this.#sent)
    if (this.#queuedFrames > maxQueuedFrames || this.#socket.writableLength > maxQueuedBytes) {
      this.end(new ProtocolError('unresponsive', 'the runner does not read its input'))
      // The runner will not read the waiting data: release its memory now.
      this.#socket.destroy()
    }
    return room
  }

  end(reason: Error | undefined): void {
    if (this.ended) return
    this.ended = true
    this.reason = reason instanceof ProtocolError ? broken(reason) : reason
    if (reason instanceof ProtocolError) {
      const body = encodeCbor({ code: reason.code, message: reason.message })
      this.#socket.write(encodeFrame(FrameType.goodbye, 0, body))
    }
    // A peer that neither reads nor closes its side must not keep ours open.
    setTimeout(() => this.#socket.destroy(), 1000).unref()
    this.#socket.end(() => this.#socket.destroy())
    const error = this.reason ?? connectionLost()
    this.#refuse(error)
    for (const stream of this.streams.values()) stream.fail(error)
    this.streams.clear()
    this.#close(this.reason)
  }

  #receive(chunk: Buffer): void {
    if (this.ended) return
    try {
      for (const frame of this.#parser.push(chunk)) {
        this.#frame(frame)
        if (this.ended) return
      }
    } catch (error) {
      if (error instanceof ProtocolError) this.end(error)
      else throw error
    }
  }

  #frame({ type, stream: id, payload }: Frame): void {
    if (type === FrameType.goodbye) return this.#goodbye(payload)
    if (this.#welcome !== undefined) return this.#handshake(type, payload)
    if (type === FrameType.pong) return this.#pong(payload)
    if (type === FrameType.ping) {
      this.send(encodeFrame(FrameType.pong, 0, payload))
      return
    }
    const stream = this.streams.get(id)
    if (stream === undefined)
      throw new ProtocolError('out_of_order', `a frame on stream ${id}, which is not open`)
    switch (type) {
      case FrameType.open:
        return stream.open(decodeMap(payload))
      case FrameType.event:
        return stream.receive({ type: 'event', body: decodeMap(payload), bytes: payload.length })
      case FrameType.data:
        return stream.receive({ type: 'data', data: payload })
      case FrameType.output: {
        const output = decodeOutput(payload)
        return stream.receive({ type: 'output', ...output, data: Buffer.from(output.data) })
      }
      case FrameType.end:
        return stream.receiveEnd()
      case FrameType.window:
        return stream.grant(payload.readUInt32BE())
      case FrameType.done: {
        const body = decodeMap(payload)
        this.#forget(id)
        return stream.finish(body)
      }
      case FrameType.error: {
        const error = fromErrorBody(decodeMap(payload), stream.op)
        this.#forget(id)
        return stream.fail(error)
      }
      default:
        throw new ProtocolError(
          'out_of_order',
          `frame type 0x${type.toString(16)} is not for runners to send`,
        )
    }
  }

  #forget(id: number): void {
    this.streams.delete(id)
    this.answered(id)
    if (this.streams.size === 0) holdProcess(this.#socket, false)
  }

  #handshake(type: number, payload: Buffer): void {
    if (type !== FrameType.welcome) throw new ProtocolError('out_of_order', 'the first frame must be WELCOME')
    const body = decodeMap(payload)
    const welcome: Welcome = {
      major: int(body, 'major'),
      minor: int(body, 'minor'),
      pid: int(body, 'pid'),
      boot: Buffer.from(bytes(body, 'boot')).toString('hex'),
    }
    if (welcome.major !== major)
      throw new ProtocolError('version', `the runner speaks protocol ${welcome.major}, not ${major}`)
    this.#welcome?.(welcome)
    this.#welcome = undefined
    holdProcess(this.#socket, false)
  }

  #pong(payload: Buffer): void {
    const waiting = this.pings.shift()
    if (waiting === undefined) throw new ProtocolError('out_of_order', 'an unsolicited PONG')
    waiting(payload)
  }

  #goodbye(payload: Buffer): void {
    const body = decodeMap(payload)
    const code = text(body, 'code').slice(0, 64)
    const message = text(body, 'message').slice(0, 1000)
    this.end(
      new SandboxError('connection_lost', `the runner ended the connection: ${message}`, {
        details: { runnerCode: code },
      }),
    )
  }
}

/** A byte stream that may lend its receive buffer. */
function lenderOf(socket: Duplex): Partial<Lender> {
  return socket as Duplex & Partial<Lender>
}

/** An idle connection does not keep this process alive; a pending request does. */
function holdProcess(socket: Duplex, hold: boolean): void {
  const own = socket as Duplex & { ref?: () => void; unref?: () => void }
  if (hold) own.ref?.()
  else own.unref?.()
}

function broken(error: ProtocolError): SandboxError {
  return new SandboxError('provider_error', `the runner broke its protocol: ${error.message}`, {
    cause: error,
    details: { violation: error.code },
  })
}
