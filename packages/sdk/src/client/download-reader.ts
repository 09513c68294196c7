import { concat } from '../shared/bytes.ts'
import { type Head, takeHead } from './answer-reader.ts'
import type { KeptConnection } from './kept-connection.ts'

/** How many bytes may wait for the consumer before the connection stops reading. */
const mostQueued = 524_288

export interface DownloadStart {
  readonly head: Head
  /** The body, once. Ends the connection when it is left early. */
  chunks(): AsyncGenerator<Uint8Array>
}

/** Reads one response with a `content-length` and hands its body out chunk by chunk, no faster than it is consumed. */
export class DownloadReader {
  readonly started: Promise<DownloadStart>
  readonly #connection: KeptConnection
  #resolve!: (start: DownloadStart) => void
  #reject!: (error: unknown) => void
  #head: Head | undefined
  #headBytes: Uint8Array = new Uint8Array()
  #left = 0
  #queue: Uint8Array[] = []
  #queued = 0
  #paused = false
  #error: unknown
  #wake: (() => void) | undefined

  constructor(connection: KeptConnection) {
    this.#connection = connection
    this.started = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  /** False when the connection should stop reading. */
  push(chunk: Uint8Array): boolean {
    const body = this.#head ? chunk : this.#takeHead(chunk)
    if (body.length > this.#left) throw new Error('more came than was asked for')
    if (body.length > 0) {
      this.#queue.push(body)
      this.#queued += body.length
      this.#left -= body.length
    }
    if (this.#head && this.#left === 0) this.#connection.release(this.#head.keepMs)
    this.#wake?.()
    this.#paused = this.#left > 0 && this.#queued > mostQueued
    return !this.#paused
  }

  fail(error: unknown): void {
    if (!this.#head) this.#reject(error)
    this.#error ??= error
    this.#wake?.()
  }

  #takeHead(chunk: Uint8Array): Uint8Array {
    const bytes = this.#headBytes.length === 0 ? chunk : concat([this.#headBytes, chunk])
    const found = takeHead(bytes)
    this.#headBytes = found ? new Uint8Array() : bytes
    if (!found) return new Uint8Array()
    if (found.head.status < 200) return this.#takeHead(bytes.subarray(found.bodyAt))
    const { head } = found
    if (head.chunked || head.length === undefined) throw new UnknownLength()
    this.#head = head
    this.#left = head.length
    this.#resolve({ head, chunks: () => this.#chunks() })
    return bytes.subarray(found.bodyAt)
  }

  async *#chunks(): AsyncGenerator<Uint8Array> {
    let whole = false
    try {
      for (;;) {
        const chunk = this.#queue.shift()
        if (chunk) {
          this.#queued -= chunk.length
          if (this.#paused && this.#queued <= mostQueued / 2) {
            this.#paused = false
            this.#connection.resume()
          }
          yield chunk
        } else if (this.#left === 0) {
          whole = true
          return
        } else if (this.#error !== undefined) throw this.#error
        else
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
      }
    } finally {
      if (!whole && this.#left > 0) this.#connection.close()
    }
  }
}

/** The response does not say how long it is. The caller reads it with `fetch` instead. */
export class UnknownLength extends Error {
  override readonly name = 'UnknownLength'
}
