import { SandboxError } from '../../errors.ts'
import type { ExitEvent, ProcessEvent, ProcessExit } from '../../spec/index.ts'
import { abortedError, onAbort } from '../calls/abort.ts'

/**
 * Numbered output of one process, kept for any number of readers.
 *
 *     push ──► [ 7 | 8 | 9 | 10 | 11 ]          the ring: at most `capacityBytes`
 *                    ▲           ▲
 *                 reader A    reader B          each at its own number
 *
 * While there are readers, unread events are not dropped. Once the slowest reader is half a ring behind,
 * `onPressure(true)` asks the writer to pause, so memory stays bounded.
 * Without readers, the oldest events are dropped, and reading them throws `gone`.
 */
export class OutputLog {
  readonly #capacity: number
  readonly #onPressure: (wait: boolean) => void
  readonly #readers = new Set<{ after: number; wake: () => void }>()
  /** Kept events start at `#head`; earlier slots are freed in batches. */
  #events: Array<{ event: ProcessEvent; end: number }> = []
  #head = 0
  #firstSeq = 1
  #nextSeq = 1
  /** The cost of everything pushed so far: bytes plus a fixed cost per event, so that tiny events are bounded too. */
  #written = 0
  #dropped = 0
  #pressed = false
  #exit: ExitEvent | undefined
  #resolveEnded: () => void = () => {}
  readonly ended = new Promise<void>((resolve) => {
    this.#resolveEnded = resolve
  })

  #expected: { after: number; wake: () => void } | undefined

  constructor(options: { capacityBytes: number; onPressure?: (wait: boolean) => void }) {
    this.#capacity = options.capacityBytes
    this.#onPressure = options.onPressure ?? (() => {})
  }

  get exit(): ExitEvent | undefined {
    return this.#exit
  }

  push(type: 'stdout' | 'stderr', data: Uint8Array): void {
    if (this.#exit) return
    // Split large output, so that dropping the oldest event never drops nearly everything.
    const piece = Math.max(1, Math.floor(this.#capacity / 8))
    for (let at = 0; at < data.byteLength; at += piece) {
      const part = data.subarray(at, at + piece)
      this.#append({ seq: this.#nextSeq, type, data: part }, part.byteLength + eventCost)
    }
  }

  end(exit: ProcessExit): void {
    if (this.#exit) return
    this.#exit = { seq: this.#nextSeq, type: 'exit', ...exit }
    this.#append(this.#exit, 0)
    this.#resolveEnded()
  }

  /** Drops nothing until the first reader comes, or the returned function is called. */
  expectReader(): () => void {
    this.#expected = { after: 0, wake: () => {} }
    this.#readers.add(this.#expected)
    return () => {
      if (this.#expected && this.#readers.delete(this.#expected)) this.#relieve()
    }
  }

  kept(): ProcessEvent[] {
    return this.#events.slice(this.#head).map(({ event }) => event)
  }

  async *read(after = 0, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    const reader = { after, wake: () => {} }
    this.#readers.add(reader)
    if (this.#expected) this.#readers.delete(this.#expected)
    const forget = onAbort(signal, () => reader.wake())
    try {
      for (;;) {
        if (signal?.aborted) throw abortedError(signal, 'Reading the output')
        if (reader.after + 1 < this.#firstSeq) throw this.#gone(reader.after)
        const entry = this.#at(reader.after + 1)
        if (entry) {
          yield entry.event
          reader.after = entry.event.seq
          this.#relieve()
          if (entry.event.type === 'exit') return
        } else if (this.#exit) {
          return
        } else {
          await new Promise<void>((resolve) => {
            reader.wake = resolve
            if (signal?.aborted) resolve()
          })
        }
      }
    } finally {
      forget()
      this.#readers.delete(reader)
      this.#relieve()
    }
  }

  #at(seq: number): { event: ProcessEvent; end: number } | undefined {
    return seq < this.#firstSeq ? undefined : this.#events[this.#head + seq - this.#firstSeq]
  }

  #append(event: ProcessEvent, cost: number): void {
    this.#nextSeq += 1
    this.#written += cost
    this.#events.push({ event, end: this.#written })
    this.#drop()
    for (const reader of this.#readers) reader.wake()
    if (!this.#pressed && this.#lag() > this.#capacity / 2) {
      this.#pressed = true
      this.#onPressure(true)
    }
  }

  #relieve(): void {
    this.#drop()
    if (this.#pressed && this.#lag() <= this.#capacity / 4) {
      this.#pressed = false
      this.#onPressure(false)
    }
  }

  /** Drops events beyond the capacity that all readers have read. */
  #drop(): void {
    let readByAll = Infinity
    for (const { after } of this.#readers) readByAll = Math.min(readByAll, after)
    // The newest output and the exit are always kept.
    const last = this.#events.length - (this.#exit ? 2 : 1)
    while (this.#written - this.#dropped > this.#capacity && this.#head < last) {
      const { event, end } = this.#events[this.#head]!
      if (event.seq > readByAll) break
      this.#dropped = end
      this.#head += 1
      this.#firstSeq += 1
    }
    // The array references dropped events until it is cut.
    if (this.#head > this.#events.length / 2) {
      this.#events = this.#events.slice(this.#head)
      this.#head = 0
    }
  }

  #lag(): number {
    let lag = 0
    for (const { after } of this.#readers) {
      // A reader that asked for later events has nothing to read yet.
      if (after < this.#nextSeq) lag = Math.max(lag, this.#written - (this.#at(after)?.end ?? this.#dropped))
    }
    return lag
  }

  #gone(after: number): SandboxError {
    return new SandboxError(
      'gone',
      `Output after event ${after} was dropped; the oldest kept is event ${this.#firstSeq}.`,
      {
        details: { after, oldest: this.#firstSeq },
      },
    )
  }
}

const eventCost = 64
