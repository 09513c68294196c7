import { connect, type Socket } from 'node:net'
import { SandboxError } from '@sandkasten/sdk'
import { type Fields, isFields } from './wire.ts'

/** Of one line, in both directions. */
const MAX_LINE = 4 * 1024 * 1024
const ANSWER_MS = 10_000

/**
 * A connection to the gateway's control socket: one JSON object per line, any number of requests at once. A violation
 * of the protocol ends the connection and fails all requests. It keeps this process alive only while a request waits.
 */
export class ControlConnection {
  /** Resolves, never rejects, when the connection has ended. */
  readonly closed: Promise<void>
  readonly #socket: Socket
  readonly #waiting = new Map<number, Waiting>()
  readonly #followers = new Map<number, (event: unknown) => void>()
  #lastId = 0
  #chunks: Buffer[] = []
  #size = 0
  #ended: SandboxError | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    this.closed = new Promise((resolve) => {
      socket.once('close', () => {
        this.#end(lost())
        resolve()
      })
    })
    socket.on('error', (cause) => this.#end(lost(cause)))
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
    socket.unref()
  }

  /** Undefined if no gateway listens there. */
  static open(path: string): Promise<ControlConnection | undefined> {
    return new Promise((resolve, reject) => {
      const socket = connect(path)
      socket.once('connect', () => {
        socket.removeAllListeners()
        resolve(new ControlConnection(socket))
      })
      socket.once('error', (cause: NodeJS.ErrnoException) => {
        if (cause.code === 'ENOENT' || cause.code === 'ECONNREFUSED') return resolve(undefined)
        reject(new SandboxError('unavailable', `The gateway cannot be reached: ${cause.message}.`, { cause }))
      })
    })
  }

  get ended(): boolean {
    return this.#ended !== undefined
  }

  /** The answer's `ok`. Rejects with the gateway's error, or `timeout`, or `connection_lost`. */
  async request(op: string, fields: Fields = {}): Promise<Fields> {
    return this.#ask(op, fields).answer
  }

  /** Like `events` with `follow`: also calls the listener for each later event, until `stop` is called. */
  async follow(fields: Fields, listener: (event: unknown) => void): Promise<{ first: Fields; stop(): void }> {
    const { id, answer } = this.#ask('events', { ...fields, follow: true }, listener)
    try {
      return { first: await answer, stop: () => this.#followers.delete(id) }
    } catch (error) {
      this.#followers.delete(id)
      throw error
    }
  }

  close(): void {
    this.#end(lost())
  }

  #ask(
    op: string,
    fields: Fields,
    listener?: (event: unknown) => void,
  ): { id: number; answer: Promise<Fields> } {
    this.#lastId += 1
    const id = this.#lastId
    const line = `${JSON.stringify({ id, op, ...fields })}\n`
    const answer = new Promise<Fields>((resolve, reject) => {
      if (this.#ended) return reject(this.#ended)
      if (Buffer.byteLength(line) > MAX_LINE)
        return reject(new SandboxError('too_large', 'The network policy is larger than 4 MiB.'))
      const timer = setTimeout(() => {
        this.#waiting.delete(id)
        this.#hold()
        reject(new SandboxError('timeout', `The gateway did not answer “${op}” in ${ANSWER_MS / 1000} s.`))
      }, ANSWER_MS)
      this.#waiting.set(id, { resolve, reject, timer })
      if (listener) this.#followers.set(id, listener)
      this.#hold()
      this.#socket.write(line)
    })
    return { id, answer }
  }

  #receive(chunk: Buffer): void {
    let rest = chunk
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const line = Buffer.concat([...this.#chunks, rest.subarray(0, end)])
      this.#chunks = []
      this.#size = 0
      rest = rest.subarray(end + 1)
      if (!this.#take(line)) return this.#end(violated())
    }
    if (rest.length === 0) return
    this.#chunks.push(rest)
    this.#size += rest.length
    if (this.#size > MAX_LINE) this.#end(violated())
  }

  #take(line: Buffer): boolean {
    const message = parse(line)
    if (message === undefined || typeof message.id !== 'number') return false
    const waiting = this.#waiting.get(message.id)
    if (waiting) {
      this.#waiting.delete(message.id)
      clearTimeout(waiting.timer)
      this.#hold()
      if (isFields(message.ok)) waiting.resolve(message.ok)
      else waiting.reject(errorOf(message.error))
      return true
    }
    if ('event' in message) this.#followers.get(message.id)?.(message.event)
    // Otherwise the answer comes after its time limit.
    return true
  }

  #hold(): void {
    if (this.#waiting.size > 0) this.#socket.ref()
    else this.#socket.unref()
  }

  #end(error: SandboxError): void {
    if (this.#ended) return
    this.#ended = error
    this.#socket.destroy()
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer)
      reject(error)
    }
    this.#waiting.clear()
    this.#followers.clear()
  }
}

interface Waiting {
  resolve(answer: Fields): void
  reject(error: Error): void
  readonly timer: NodeJS.Timeout
}

function parse(line: Buffer): Fields | undefined {
  try {
    const value: unknown = JSON.parse(line.toString('utf8'))
    return isFields(value) ? value : undefined
  } catch {
    return undefined
  }
}

function errorOf(value: unknown): SandboxError {
  const { code, message } = isFields(value) ? value : {}
  const known = code === 'invalid_argument' || code === 'not_found' ? code : 'unavailable'
  const text = typeof message === 'string' ? message.slice(0, 2000) : 'no reason given'
  return new SandboxError(known, `The gateway refused: ${text}`)
}

function lost(cause?: unknown): SandboxError {
  return new SandboxError('connection_lost', 'The connection to the gateway was lost.', { cause })
}

function violated(): SandboxError {
  return new SandboxError('connection_lost', 'The gateway violated its protocol.')
}
