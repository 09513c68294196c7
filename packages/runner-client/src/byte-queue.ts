/**
 * Content that waits for its consumer. Bytes are copied in, because the socket reuses its read buffer, and copied out if the
 * consumer passes its own memory. The blocks in between are reused, because garbage collection was most of the cost of a
 * large download.
 */
const blockBytes = 64 * 1024
const mostFree = 64
/** Free blocks, shared by all queues of this process. */
const free: Buffer[] = []

interface Part {
  readonly memory: Buffer
  start: number
  end: number
}

export class ByteQueue {
  #parts: Part[] = []
  #length = 0

  get length(): number {
    return this.#length
  }

  /** With `much`, more bytes will follow, so a whole block is used; otherwise only as much memory as needed. */
  push(bytes: Uint8Array, much: boolean): void {
    this.#length += bytes.length
    let at = 0
    while (at < bytes.length) {
      let last = this.#parts.at(-1)
      if (!last || last.end === last.memory.length) {
        const memory = much
          ? (free.pop() ?? Buffer.allocUnsafeSlow(blockBytes))
          : Buffer.allocUnsafe(bytes.length - at)
        last = { memory, start: 0, end: 0 }
        this.#parts.push(last)
      }
      const size = Math.min(bytes.length - at, last.memory.length - last.end)
      last.memory.set(bytes.subarray(at, at + size), last.end)
      last.end += size
      at += size
    }
  }

  /** The first waiting bytes, in memory that belongs to the caller from now on. */
  take(): Buffer {
    const { memory, start, end } = this.#parts.shift()!
    this.#length -= end - start
    return memory.subarray(start, end)
  }

  /** Moves as many bytes as are available and fit. Returns their number. */
  takeInto(view: Uint8Array): number {
    let filled = 0
    for (let first = this.#parts[0]; first && filled < view.length; first = this.#parts[0]) {
      const size = Math.min(view.length - filled, first.end - first.start)
      view.set(first.memory.subarray(first.start, first.start + size), filled)
      first.start += size
      filled += size
      if (first.start === first.end) this.#drop()
    }
    this.#length -= filled
    return filled
  }

  clear(): void {
    while (this.#parts.length > 0) this.#drop()
    this.#length = 0
  }

  #drop(): void {
    const { memory } = this.#parts.shift()!
    if (memory.length === blockBytes && memory.buffer.byteLength === blockBytes && free.length < mostFree)
      free.push(memory)
  }
}
