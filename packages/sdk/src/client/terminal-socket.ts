import { SandboxError } from '../errors.ts'
import { abortedError, onAbort } from '../shared/calls/abort.ts'
import type { ProcessEvent } from '../spec/index.ts'

/** A WebSocket has no backpressure: when a reader is this far behind, the socket is closed and reopened later. */
const maxWaitingBytes = 4 * 1024 * 1024
const takenOver = 4001

/** One connection to a terminal: binary messages are output, text messages are control messages. */
export class TerminalSocket {
  readonly #socket: WebSocket
  readonly #messages: Array<Uint8Array | Control> = []
  #waitingBytes = 0
  #wake: () => void = () => {}
  #closed: { code: number } | undefined
  readonly #openedAt = Date.now()

  private constructor(socket: WebSocket) {
    this.#socket = socket
  }

  /** Resolves when this socket has the terminal. */
  static async open(connect: () => WebSocket): Promise<TerminalSocket> {
    const socket = connect()
    socket.binaryType = 'arraybuffer'
    const terminal = new TerminalSocket(socket)
    await terminal.#ready()
    return terminal
  }

  get isOpen(): boolean {
    return this.#closed === undefined && this.#socket.readyState === 1
  }

  send(data: Uint8Array): void {
    this.#socket.send(data as Uint8Array<ArrayBuffer>)
  }

  control(message: object): void {
    this.#socket.send(JSON.stringify(message))
  }

  close(): void {
    this.#socket.close()
  }

  /** Events after this number. Ends without an exit event when the reader was too slow; throws when the connection is lost. */
  async *events(after: number, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    let last = after
    const forget = onAbort(signal, () => this.#wake())
    try {
      for (;;) {
        if (signal?.aborted) throw abortedError(signal, 'Reading the terminal')
        const message = this.#messages.shift()
        if (message instanceof Uint8Array) {
          this.#waitingBytes -= message.byteLength
          last += 1
          yield { seq: last, type: 'stdout', data: message }
        } else if (message?.type === 'gone') {
          throw new SandboxError('gone', `The terminal’s output after event ${after} was dropped.`, {
            details: { after, oldest: message.oldest },
          })
        } else if (message?.type === 'exit') {
          yield this.#exitOf(message, last)
          return
        } else if (this.#closed) {
          if (this.#closed.code === ownClose) return
          throw this.#cutOff()
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
        }
      }
    } finally {
      forget()
    }
  }

  #ready(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#socket.addEventListener('message', ({ data }) => {
        const message = typeof data === 'string' ? (JSON.parse(data) as Control) : new Uint8Array(data)
        if (!(message instanceof Uint8Array) && message.type === 'ready') return resolve()
        this.#take(message)
      })
      this.#socket.addEventListener('close', ({ code }) => {
        this.#closed ??= { code }
        reject(this.#cutOff())
        this.#wake()
      })
      this.#socket.addEventListener('error', () => {
        this.#closed ??= { code: 1006 }
        reject(this.#cutOff())
        this.#wake()
      })
    })
  }

  #take(message: Uint8Array | Control): void {
    if (this.#closed) return
    this.#messages.push(message)
    if (message instanceof Uint8Array) this.#waitingBytes += message.byteLength
    if (this.#waitingBytes > maxWaitingBytes) {
      this.#closed = { code: ownClose }
      this.#socket.close()
    }
    this.#wake()
  }

  #exitOf(message: Control, last: number): ProcessEvent {
    return {
      seq: message.seq ?? last + 1,
      type: 'exit',
      exitCode: message.exit_code ?? 0,
      signal: message.signal,
      timedOut: false,
      durationMs: message.duration_ms ?? Date.now() - this.#openedAt,
    }
  }

  #cutOff(): SandboxError {
    if (this.#closed?.code === takenOver)
      return new SandboxError('interrupted', 'Another connection has taken over the terminal.', {
        hint: 'Read its output again to take it back.',
      })
    return new SandboxError('connection_lost', 'The connection to the terminal was lost.')
  }
}

const ownClose = 0

interface Control {
  type: string
  seq?: number
  oldest?: number
  exit_code?: number
  signal?: string
  duration_ms?: number
}
