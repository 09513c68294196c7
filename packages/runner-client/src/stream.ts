/**
 * One request and everything that belongs to it.
 *
 * The runner's credit bounds the queue of incoming content. Credit is returned only for consumed content, a quarter of the
 * window at a time. So a slow consumer slows the process in the sandbox, and costs at most one window of memory. Outgoing
 * content waits for the runner's credit in the same way. Do not call `next` again before it has settled. `write` calls are
 * sent in order.
 */
import { ByteQueue } from './byte-queue.ts'
import type { CborMap } from './cbor.ts'
import { connectionLost, ProtocolError } from './errors.ts'
import { initialWindow, maxData, maxWindow, type OutputChunk } from './frame.ts'

export type StreamItem =
  | { type: 'data'; data: Buffer }
  | ({ type: 'output' } & OutputChunk)
  | { type: 'event'; body: CborMap; bytes: number }

/** Lends the receive buffer, to avoid a copy. */
export interface Lender {
  /** Whether `keep` is used from the next read on. Each `true` is followed by a `false`. */
  lend(on: boolean): void
  /** Keeps the current bytes valid until the returned function is called, once. Undefined if that is not possible. */
  keep(): (() => void) | undefined
}

export interface StreamHost extends Lender {
  sendData(stream: number, data: Uint8Array): Promise<void> | undefined
  sendEnd(stream: number): void
  sendCancel(stream: number): void
  sendWindow(stream: number, bytes: number): void
}

/** Gets a chunk of content in memory that belongs to it until it calls `done`, once. */
export type Taker = (piece: Uint8Array, done: () => void) => void

/** The most events that wait for a consumer; events need no credit. */
const maxWaitingEvents = 1024
const maxWaitingEventBytes = 4 * 1024 * 1024
/** The window of a wide stream after its consumer has taken some content, so that neither side waits for each chunk. */
const wideWindow = 2 * 1024 * 1024

export interface StreamOptions {
  /** Whether the runner may send content on the stream. */
  content?: boolean
  /** For large content, such as a file. */
  wide?: boolean
}

export class RunnerStream {
  readonly id: number
  readonly op: string
  /** The OPEN body. A stream that is done without one resolves with its result. */
  readonly opened: Promise<CborMap>
  /** The DONE body, as soon as it arrives; content may still be queued. */
  readonly done: Promise<CborMap>
  readonly #host: StreamHost
  readonly #takesContent: boolean
  readonly #widest: number
  #items: Exclude<StreamItem, { type: 'data' }>[] = []
  readonly #content = new ByteQueue()
  /** A reader with its own memory. */
  #wanted: { view: Uint8Array; filled: number } | undefined
  /** A reader that takes content as it arrives. */
  #taker: Taker | undefined
  #waitingEvents = 0
  #waitingEventBytes = 0
  /** How many bytes the runner may still send. */
  #window = initialWindow
  #width = initialWindow
  #consumed = 0
  /** How many bytes we may still send. */
  #credit = initialWindow
  #creditWaiters: (() => void)[] = []
  #wake: (() => void) | undefined
  #finished = false
  #failure: Error | undefined
  #opened = false
  #remoteEnded = false
  #ended = false
  #discarding = false
  #writing: Promise<void> = Promise.resolve()
  #resolveOpen!: (body: CborMap) => void
  #rejectOpen!: (error: Error) => void
  #resolveDone!: (body: CborMap) => void
  #rejectDone!: (error: Error) => void

  constructor(host: StreamHost, id: number, op: string, options: StreamOptions = {}) {
    this.#host = host
    this.id = id
    this.op = op
    this.#takesContent = options.content ?? false
    this.#widest = options.wide ? wideWindow : initialWindow
    this.opened = new Promise((resolve, reject) => {
      this.#resolveOpen = resolve
      this.#rejectOpen = reject
    })
    this.done = new Promise((resolve, reject) => {
      this.#resolveDone = resolve
      this.#rejectDone = reject
    })
    // Mark both rejections as handled; a caller that awaits them still gets the error.
    this.opened.catch(() => {})
    this.done.catch(() => {})
  }

  get finished(): boolean {
    return this.#finished
  }

  /** The next item; undefined after the last one. Rejects if the stream failed. */
  async next(): Promise<StreamItem | undefined> {
    for (;;) {
      if (this.#content.length > 0) {
        const data = this.#content.take()
        this.#give(data.length)
        return { type: 'data', data }
      }
      const item = this.#items.shift()
      if (item !== undefined) {
        if (item.type === 'event') {
          this.#waitingEvents -= 1
          this.#waitingEventBytes -= item.bytes
        } else this.#give(item.data.length)
        return item
      }
      if (this.#over()) return undefined
      await this.#news()
    }
  }

  /** Reads content into the caller's memory. Returns the number of bytes; 0 at the end. Only for streams with content alone. */
  async readInto(view: Uint8Array): Promise<number> {
    let filled = this.#content.takeInto(view)
    if (filled === 0 && !this.#over()) {
      const wanted = { view, filled: 0 }
      this.#wanted = wanted
      do await this.#news()
      while (wanted.filled === 0 && !this.#over())
      this.#wanted = undefined
      filled = wanted.filled
    }
    this.#give(filled)
    return filled
  }

  /**
   * Hands on all content as it arrives, without copying, until the end or a cancel. Credit is returned when the taker is done
   * with a chunk. A taker that throws cancels the stream.
   */
  async lend(take: Taker): Promise<void> {
    let refused: { error: unknown } | undefined
    const taker: Taker = (piece, done) => {
      try {
        take(piece, done)
      } catch (error) {
        refused ??= { error }
        done()
        this.cancel()
      }
    }
    while (this.#content.length > 0) this.#hand(this.#content.take(), taker)
    if (!this.#discarding && !this.#over()) {
      this.#taker = taker
      this.#host.lend(true)
      while (!this.#discarding && !this.#over()) await this.#news()
    }
    if (refused) throw refused.error
  }

  #hand(piece: Uint8Array, take: Taker, release?: () => void): void {
    let lent = true
    take(piece, () => {
      if (!lent) return
      lent = false
      release?.()
      this.#give(piece.length)
    })
  }

  /** Runs within the event that ended it, so that the next read is an ordinary one. */
  #stopLending(): void {
    if (this.#taker) this.#host.lend(false)
    this.#taker = undefined
  }

  /** Whether all input has been received. Throws if the stream failed. */
  #over(): boolean {
    if (this.#failure !== undefined) throw this.#failure
    // A relay's END: no more input, but the stream stays open for output.
    return this.#finished || this.#remoteEnded
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }

  /** Discards further content, so that nothing in the sandbox waits for us. */
  discard(): void {
    this.#discarding = true
    for (const item of this.#items) if (item.type !== 'event') this.#give(item.data.length)
    this.#give(this.#content.length)
    this.#content.clear()
    this.#items = []
    this.#waitingEvents = 0
    this.#waitingEventBytes = 0
    this.#notify()
  }

  /** Resolves when the runner's credit and our socket had room for all data. */
  write(data: Uint8Array): Promise<void> {
    const written = this.#writing.then(() => this.#send(data))
    this.#writing = written.catch(() => {})
    return written
  }

  /** Ends our content, after all earlier writes. */
  end(): Promise<void> {
    const ended = this.#writing.then(() => {
      if (this.#ended || this.#finished) return
      this.#ended = true
      this.#host.sendEnd(this.id)
    })
    this.#writing = ended
    return ended
  }

  /** Asks the runner to end the stream. The id stays in use until the response arrives. */
  cancel(): void {
    if (this.#finished) return
    this.discard()
    this.#host.sendCancel(this.id)
  }

  async #send(data: Uint8Array): Promise<void> {
    for (let at = 0; at < data.length; ) {
      while (this.#credit === 0 && !this.#finished) {
        await new Promise<void>((resolve) => this.#creditWaiters.push(resolve))
      }
      if (this.#failure !== undefined) throw this.#failure
      // The runner has responded, so it needs no more content.
      if (this.#finished || this.#ended) return
      const size = Math.min(this.#credit, maxData, data.length - at)
      this.#credit -= size
      await this.#host.sendData(this.id, data.subarray(at, at + size))
      at += size
    }
  }

  #give(bytes: number): void {
    this.#consumed += bytes
    if (this.#finished || this.#remoteEnded || this.#consumed < this.#width / 4) return
    const granted = this.#consumed + this.#widest - this.#width
    this.#width = this.#widest
    this.#window += granted
    this.#host.sendWindow(this.id, granted)
    this.#consumed = 0
  }

  open(body: CborMap): void {
    if (this.#opened) throw new ProtocolError('out_of_order', 'a stream that opens twice')
    this.#opened = true
    this.#resolveOpen(body)
  }

  receive(item: StreamItem): void {
    if (item.type === 'event') {
      if (this.#discarding) return
      this.#waitingEvents += 1
      this.#waitingEventBytes += item.bytes
      if (this.#waitingEvents > maxWaitingEvents || this.#waitingEventBytes > maxWaitingEventBytes)
        throw new ProtocolError('flow_control', 'too many events')
    } else {
      if (!this.#takesContent || this.#remoteEnded)
        throw new ProtocolError('out_of_order', `content for ${this.op}`)
      this.#window -= item.data.length
      if (this.#window < 0) throw new ProtocolError('flow_control', 'more content than the window allows')
      if (this.#discarding) return this.#give(item.data.length)
    }
    if (item.type === 'data') this.#keep(item.data)
    else this.#items.push(item)
    this.#notify()
  }

  /** The caller may reuse this buffer, so copy the bytes that are not consumed at once. */
  #keep(data: Buffer): void {
    if (this.#taker) {
      const release = this.#host.keep()
      return this.#hand(release ? data : Buffer.from(data), this.#taker, release)
    }
    const wanted = this.#wanted
    const direct = wanted ? Math.min(data.length, wanted.view.length - wanted.filled) : 0
    if (wanted) {
      wanted.view.set(data.subarray(0, direct), wanted.filled)
      wanted.filled += direct
    }
    if (direct < data.length) this.#content.push(data.subarray(direct), this.#width > initialWindow)
  }

  receiveEnd(): void {
    if (!this.#takesContent || this.#remoteEnded) throw new ProtocolError('out_of_order', 'a second end')
    this.#remoteEnded = true
    this.#notify()
  }

  grant(bytes: number): void {
    this.#credit += bytes
    if (bytes === 0 || this.#credit > maxWindow)
      throw new ProtocolError('flow_control', 'an impossible window')
    this.#release()
  }

  finish(body: CborMap): void {
    this.#finished = true
    this.#stopLending()
    if (!this.#opened) this.#resolveOpen(body)
    this.#resolveDone(body)
    this.#notify()
    this.#release()
  }

  fail(error: Error): void {
    if (this.#finished) return
    this.#finished = true
    this.#failure = error
    this.#stopLending()
    this.#rejectOpen(error)
    this.#rejectDone(error)
    this.#notify()
    this.#release()
  }

  lost(cause: unknown): void {
    this.fail(connectionLost(cause))
  }

  #notify(): void {
    this.#wake?.()
    this.#wake = undefined
  }

  #release(): void {
    for (const waiter of this.#creditWaiters.splice(0)) waiter()
  }
}
