import { SandboxError } from '../errors.ts'
import { type Answer, AnswerReader } from './answer-reader.ts'

/**
 * Short questions to a daemon near by, in Node: over plain HTTP they are written to a kept connection and their answers read off it, by ourselves. A command
 * in a sandbox takes a millisecond, and a question by `node:http` takes 0.4 ms of its own, by this 0.2 (by hand, in turns, to a server that does nothing).
 * Everything else (streams, TLS, other runtimes, somebody's own `fetch`, a proxy of the environment) is left to `fetch`. Nothing is imported, so whoever
 * bundles this for a browser meets no module of Node's.
 */
export type Ask = (
  path: string,
  init: { method: string; headers: Readonly<Record<string, string>>; body?: string; signal?: AbortSignal },
) => Promise<Answer>

/** Undefined where `fetch` is to be used. `path` is what follows this URL. */
export function nodeAsk(baseUrl: string): Ask | undefined {
  const node = globalThis.process
  if (!baseUrl.startsWith('http:') || !node?.versions?.node || node.env?.NODE_USE_ENV_PROXY) return undefined
  const net = node.getBuiltinModule?.('node:net')
  if (!net || !URL.canParse(baseUrl)) return undefined
  const { host, hostname, port, pathname, username, password } = new URL(baseUrl)
  if (username !== '' || password !== '') return undefined
  const prefix = pathname === '/' ? '' : pathname
  const where = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80), noDelay: true }
  const free: Line[] = []
  return async (path, { method, headers, body, signal }) => {
    const request = requestText(method, `${prefix}${path}`, { host, ...headers }, body)
    const line = lastFree(free) ?? new Line(net.connect(where), (gone) => drop(free, gone))
    const answer = await line.ask(request, signal)
    if (line.usable) free.push(line)
    return answer
  }
}

function requestText(
  method: string,
  target: string,
  headers: Readonly<Record<string, string>>,
  body: string | undefined,
): string {
  let head = `${method} ${target} HTTP/1.1\r\n`
  for (const [name, value] of Object.entries(headers)) {
    if (/[^\t\x20-\x7e]/.test(value))
      throw new SandboxError('invalid_argument', `The header ${name} cannot have this value.`, {
        hint: 'Use printable ASCII characters.',
      })
    head += `${name}: ${value}\r\n`
  }
  if (/[^\x21-\x7e]/.test(target)) throw new SandboxError('invalid_argument', 'The path is none of a URL.')
  const length = body === undefined ? 0 : new TextEncoder().encode(body).length
  if (body !== undefined || method === 'POST' || method === 'PUT' || method === 'PATCH')
    head += `content-length: ${length}\r\n`
  return `${head}\r\n${body ?? ''}`
}

/** The one that was used last: the others may be let go. */
function lastFree(free: Line[]): Line | undefined {
  for (let line = free.pop(); line; line = free.pop()) {
    if (line.usable) return line
    line.close()
  }
  return undefined
}

function drop(free: Line[], line: Line): void {
  const at = free.indexOf(line)
  if (at >= 0) free.splice(at, 1)
}

/** What is used of Node's, said here: nothing of it is imported, not even its types. */
interface Socket {
  readonly destroyed: boolean
  on(event: 'data', listener: (chunk: Uint8Array) => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'close', listener: () => void): unknown
  write(text: string): unknown
  ref(): unknown
  unref(): unknown
  destroy(): unknown
}

/** A connection, for one question after another. */
class Line {
  readonly #socket: Socket
  readonly #reader = new AnswerReader()
  #waiting: { resolve(answer: Answer): void; reject(error: unknown): void } | undefined
  #usableUntil = 0

  constructor(socket: Socket, onClosed: (line: Line) => void) {
    this.#socket = socket
    let cause: unknown
    socket.on('error', (error) => {
      cause = error
    })
    socket.on('data', (chunk) => this.#read(chunk))
    socket.on('close', () => {
      onClosed(this)
      const answer = this.#reader.end()
      if (answer) this.#answered(answer)
      else this.#failed(cause ?? new Error('the connection was closed before the answer came'))
    })
  }

  /** Nobody uses it, and the other side has not let go of it, nor is about to. */
  get usable(): boolean {
    return !this.#waiting && !this.#socket.destroyed && performance.now() < this.#usableUntil
  }

  close(): void {
    this.#socket.destroy()
  }

  async ask(request: string, signal: AbortSignal | undefined): Promise<Answer> {
    const answer = new Promise<Answer>((resolve, reject) => {
      this.#waiting = { resolve, reject }
    })
    const abort = () => this.#failed(signal!.reason)
    signal?.addEventListener('abort', abort, { once: true })
    this.#socket.ref()
    this.#socket.write(request)
    try {
      return await answer
    } finally {
      signal?.removeEventListener('abort', abort)
    }
  }

  #read(chunk: Uint8Array): void {
    try {
      if (!this.#waiting) throw new Error('something came that nobody asked for')
      const answer = this.#reader.push(chunk)
      if (answer) this.#answered(answer)
    } catch (error) {
      this.#failed(error)
    }
  }

  #answered(answer: Answer): void {
    const waiting = this.#waiting
    this.#waiting = undefined
    // Sooner than the other side lets go of it: what is sent to one who is just leaving is lost.
    this.#usableUntil = answer.keepMs > 2000 ? performance.now() + answer.keepMs - 1000 : 0
    // Connections that nobody uses do not keep the process alive.
    if (this.usable) this.#socket.unref()
    else this.close()
    waiting?.resolve(answer)
  }

  #failed(cause: unknown): void {
    const waiting = this.#waiting
    this.#waiting = undefined
    this.close()
    // As `fetch` says it.
    waiting?.reject(new TypeError('The request failed.', { cause }))
  }
}
