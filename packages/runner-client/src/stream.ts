/**
 * One request and everything that belongs to it.
 *
 * Incoming content waits in a queue that the runner's credit bounds: credit is given back only for what a consumer has taken, a quarter
 * of the window at a time, so a slow consumer slows the process inside and costs us at most one window. Outgoing content waits for the
 * runner's credit in the same way. `next` must not be called again before it has settled; `write` calls are sent in the order they were made.
 */
import { ByteQueue } from './byte-queue.ts'
import type { CborMap } from './cbor.ts'
import { connectionLost, ProtocolError } from './errors.ts'
import { initialWindow, maxData, maxWindow, type OutputChunk } from './frame.ts'

export type StreamItem =
  | { type: 'data'; data: Buffer }
  | ({ type: 'output' } & OutputChunk)
  | { type: 'event'; body: CborMap; bytes: number }

/** Lends the memory that bytes arrive in, where they would otherwise be copied. */
export interface Lender {
  /** Whether `keep` is used from the next read on. Each `true` is followed by a `false`. */
  lend(on: boolean): void
  /** While bytes are being handled: they stay what they are until the returned function is called, once. Undefined: they do not. */
  keep(): (() => void) | undefined
}

/** What a stream needs of its connection. */
export interface StreamHost extends Lender {
  sendData(stream: number, data: Uint8Array): Promise<void> | undefined
  sendEnd(stream: number): void
  sendCancel(stream: number): void
  sendWindow(stream: number, bytes: number): void
}

/** Gets a piece of content in memory that is its own until it calls `done`, once. */
export type Taker = (piece: Uint8Array, done: () => void) => void

/** News that wait for a consumer; they have no credit of their own. */
const maxWaitingEvents = 1024
const maxWaitingEventBytes = 4 * 1024 * 1024
/** What the window of a wide stream grows to once its consumer has taken some: then neither side waits for the other's every step. */
const wideWindow = 2 * 1024 * 1024

export interface StreamOptions {
  /** Whether the runner may send content on it. */
  content?: boolean
  /** For much content at once, such as a file. */
  wide?: boolean
}

export class RunnerStream {
  readonly id: number
  readonly op: string
  /** The OPEN body. A stream that is done without one resolves with its result. */
  readonly opened: Promise<CborMap>
  /** The DONE body, as soon as it arrives; content may still wait in the queue. */
  readonly done: Promise<CborMap>
  readonly #host: StreamHost
  readonly #takesContent: boolean
  readonly #widest: number
  #items: Exclude<StreamItem, { type: 'data' }>[] = []
  readonly #content = new ByteQueue()
  /** A reader that brings its own memory. */
  #wanted: { view: Uint8Array; filled: number } | undefined
  /** A reader that takes content as it comes. */
  #taker: Taker | undefined
  #waitingEvents = 0
  #waitingEventBytes = 0
  /** What the runner may still send. */
  #window = initialWindow
  /** What it may have sent at most that was not taken yet. */
  #width = initialWindow
  #consumed = 0
  /** What we may still send. */
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

  /** The next item; undefined after the last. Rejects when the stream failed. */
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

  /** The next content, in memory that the caller brings: how many bytes; 0 after the last. Not for streams with anything but content. */
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
   * Hands on all content as it comes, where it lies, until the last or until it is cancelled. What is not done with is what waits: the runner's credit is
   * given back with each piece. A taker that throws cancels it.
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

  /** Within the event that ended it, so that the next read is an ordinary one. */
  #stopLending(): void {
    if (this.#taker) this.#host.lend(false)
    this.#taker = undefined
  }

  /** Whether nothing more comes in; throws when it failed. */
  #over(): boolean {
    if (this.#failure !== undefined) throw this.#failure
    // A relay's END: nothing more comes in, though the stream lives on for what we send.
    return this.#finished || this.#remoteEnded
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }

  /** From now on content is taken and thrown away, so that nothing inside waits for us. */
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

  /** Resolves when the runner's credit and our own socket had room for all of it. */
  write(data: Uint8Array): Promise<void> {
    const written = this.#writing.then(() => this.#send(data))
    this.#writing = written.catch(() => {})
    return written
  }

  /** No more content from us, after what was written before. */
  end(): Promise<void> {
    const ended = this.#writing.then(() => {
      if (this.#ended || this.#finished) return
      this.#ended = true
      this.#host.sendEnd(this.id)
    })
    this.#writing = ended
    return ended
  }

  /** Asks the runner to end it; the answer is still awaited before the id is forgotten. */
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
      // The runner has answered: it wants no more.
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

  // What the connection tells it.

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

  /** The caller may reuse this buffer, so copy what is not consumed at once. */
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
