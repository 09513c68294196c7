import { SandboxError } from '../errors.ts'
import { throwIfAborted } from '../shared/calls/abort.ts'
import { encode } from '../shared/output/bytes.ts'
import type {
  CallOptions,
  OutputOptions,
  ProcessEvent,
  ProcessExit,
  ProcessSignal,
  ProcessStatus,
} from '../spec/index.ts'
import { type Http, segment } from './http.ts'
import { ReconnectDelay } from './reconnect-delay.ts'
import { TerminalSocket } from './terminal-socket.ts'

/**
 * A terminal. One WebSocket carries its output and input. A terminal has one socket at a time: a new reader or writer takes
 * it over, and the previous one fails with `interrupted`.
 */
export class SessionTerminal {
  readonly terminalId: string
  readonly #http: Http
  readonly #path: string
  #socket: Promise<TerminalSocket> | undefined
  #exit: ProcessExit | undefined

  constructor(http: Http, sessionPath: string, terminalId: string) {
    this.#http = http
    this.terminalId = terminalId
    this.#path = `${sessionPath}/terminals/${segment(terminalId, 'terminal')}`
  }

  async write(data: string | Uint8Array, options: CallOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    ;(await this.#current()).send(encode(data))
  }

  async resize(size: { cols: number; rows: number }, options: CallOptions = {}): Promise<void> {
    const { cols, rows } = size
    const path = `${this.#path}/resize`
    await this.#http.done('POST', path, { json: { cols, rows }, signal: options.signal })
  }

  /** Numbered output. Resumes after lost connections. Throws `gone` when output after `after` was dropped. */
  async *output({ after = 0, signal }: OutputOptions = {}): AsyncGenerator<ProcessEvent> {
    const reconnectDelay = new ReconnectDelay()
    let last = after
    for (;;) {
      try {
        const socket = await this.#take(last)
        for await (const event of socket.events(last, signal)) {
          reconnectDelay.restore()
          last = event.seq
          if (event.type === 'exit') {
            const { seq: _, type: __, ...exit } = event
            this.#exit = exit
          }
          yield event
          if (event.type === 'exit') return
        }
      } catch (error) {
        throwIfAborted(signal, 'Reading the terminal')
        if (!SandboxError.is(error, 'connection_lost', 'unavailable') || reconnectDelay.over()) throw error
        await reconnectDelay.wait(signal)
      }
    }
  }

  /** Sends a signal to the program and all programs it started. False when it has ended. */
  async kill(signal: ProcessSignal = 'SIGTERM', options: CallOptions = {}): Promise<boolean> {
    if (this.#exit) return false
    if (signal === 'SIGKILL')
      return (await this.#http.json<{ killed: boolean }>('DELETE', this.#path, { signal: options.signal }))
        .killed
    if (!(await this.status(options)).running) return false
    ;(await this.#current()).control({ type: 'signal', signal })
    return true
  }

  async status(options: CallOptions = {}): Promise<ProcessStatus> {
    if (this.#exit) return { running: false, exit: this.#exit }
    const { status } = await this.#http.json<{ status: string }>('GET', this.#path, {
      signal: options.signal,
    })
    return { running: status === 'running' }
  }

  /** Closes the socket. The terminal continues. */
  async close(): Promise<void> {
    const socket = await this.#socket?.catch(() => undefined)
    this.#socket = undefined
    socket?.close()
  }

  /** The open socket, or a new one for input only. */
  async #current(): Promise<TerminalSocket> {
    const socket = await this.#socket?.catch(() => undefined)
    if (socket?.isOpen) return socket
    return this.#take(Number.MAX_SAFE_INTEGER)
  }

  #take(after: number): Promise<TerminalSocket> {
    const query = { after, takeover: 1 }
    const socket = TerminalSocket.open(() => this.#http.socket(`${this.#path}/ws`, query)).catch(
      async (error: unknown) => {
        // A refused WebSocket does not say why; a request for the terminal does.
        await this.#http.json('GET', this.#path)
        throw error
      },
    )
    this.#socket = socket
    return socket
  }
}
