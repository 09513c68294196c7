import { type Answer, AnswerReader } from './answer-reader.ts'
import type { DownloadReader } from './download-reader.ts'

/** The part of Node's socket that we use, described here so that nothing of Node is imported. */
export interface Socket {
  readonly destroyed: boolean
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'close', listener: () => void): unknown
  write(text: string): unknown
  resume(): unknown
  ref(): unknown
  unref(): unknown
  destroy(): unknown
}

/** Where a socket puts what it reads, and what happens then. False stops reading. */
export interface OnRead {
  buffer(): Uint8Array
  callback(size: number, memory: Uint8Array): boolean
}

const smallBlock = 65_536
const largeBlock = 262_144

/**
 * One HTTP/1.1 connection for one request after another.
 *
 * Reads land in blocks that are never written twice, so answers and chunks are views of them and nothing is copied.
 * Node alone would allocate 64 KiB for every read.
 */
export class KeptConnection {
  readonly #socket: Socket
  readonly #reader = new AnswerReader()
  #block = new Uint8Array(smallBlock)
  #used = 0
  #waiting: { resolve(answer: Answer): void; reject(error: unknown): void } | undefined
  #download: DownloadReader | undefined
  #usableUntil = 0

  constructor(connect: (onread: OnRead) => Socket, onClosed: (gone: KeptConnection) => void) {
    const socket = connect({
      buffer: () => this.#room(),
      callback: (size, memory) => {
        this.#used += size
        return this.#read(memory.subarray(0, size))
      },
    })
    this.#socket = socket
    let cause: unknown
    socket.on('error', (error) => {
      cause = error
    })
    socket.on('close', () => {
      onClosed(this)
      const answer = this.#waiting && this.#reader.end()
      if (answer) this.#answered(answer)
      else this.#failed(cause ?? new Error('the connection was closed before the answer came'))
    })
  }

  /** Free, and the server keeps it open for long enough to send another request. */
  get usable(): boolean {
    return (
      !this.#waiting && !this.#download && !this.#socket.destroyed && performance.now() < this.#usableUntil
    )
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
    this.#send(request)
    try {
      return await answer
    } finally {
      signal?.removeEventListener('abort', abort)
    }
  }

  /** The reader gets everything that arrives until it has the whole body or closes the connection. */
  download(request: string, reader: DownloadReader): void {
    this.#download = reader
    this.#send(request)
  }

  /** Continues reading after `DownloadReader.push` returned false. */
  resume(): void {
    this.#socket.resume()
  }

  /** The download is complete. The connection is free for `keepMs` more. */
  release(keepMs: number): void {
    this.#download = undefined
    this.#keepFor(keepMs)
  }

  #send(request: string): void {
    this.#socket.ref()
    this.#socket.write(request)
  }

  #room(): Uint8Array {
    const size = this.#download ? largeBlock : smallBlock
    if (this.#block.length - this.#used < size / 4) {
      this.#block = new Uint8Array(size)
      this.#used = 0
    }
    return this.#block.subarray(this.#used)
  }

  /** False to stop reading. */
  #read(chunk: Uint8Array): boolean {
    try {
      if (this.#download) return this.#download.push(chunk)
      if (!this.#waiting) throw new Error('something came that was not asked for')
      const answer = this.#reader.push(chunk)
      if (answer) this.#answered(answer)
    } catch (error) {
      this.#failed(error)
    }
    return true
  }

  #answered(answer: Answer): void {
    const waiting = this.#waiting
    this.#waiting = undefined
    this.#keepFor(answer.keepMs)
    waiting?.resolve(answer)
  }

  /** For less time than the server: a request that is sent while the server closes is lost. */
  #keepFor(keepMs: number): void {
    this.#usableUntil = keepMs > 2000 ? performance.now() + keepMs - 1000 : 0
    // Unused connections do not keep the process alive.
    if (this.usable) this.#socket.unref()
    else this.close()
  }

  #failed(cause: unknown): void {
    const waiting = this.#waiting
    const download = this.#download
    this.#waiting = undefined
    this.#download = undefined
    this.close()
    // The same error as `fetch` throws.
    const error = new TypeError('The request failed.', { cause })
    waiting?.reject(error)
    download?.fail(error)
  }
}
