import type { OutputBudget } from '../../spec/index.ts'

/** Kept of each stream, regardless of the budget. */
const freeBytes = 64 * 1024
/** Reserved from the budget at once, so that small chunks do not ask each time. */
const stepBytes = 256 * 1024

/** Keeps the head and the tail of a stream in bounded memory. The cut never splits a UTF-8 character. */
export class HeadTail {
  readonly #maxBytes: number
  #headLimit: number
  #tailLimit: number
  #budget: OutputBudget | undefined
  /** Bytes that may be kept without asking the budget again. */
  #granted: number
  #head = new Uint8Array()
  #headBytes = 0
  /**
   * A ring whose oldest byte is at `#tailStart`. Copying every chunk separately would burden the garbage collector.
   */
  #tail = new Uint8Array()
  #tailStart = 0
  #tailBytes = 0
  #total = 0

  constructor(maxBytes: number, budget?: OutputBudget) {
    this.#maxBytes = maxBytes
    this.#headLimit = Math.ceil(maxBytes / 2)
    this.#tailLimit = Math.floor(maxBytes / 2)
    this.#budget = budget
    this.#granted = budget ? freeBytes : maxBytes
  }

  push(chunk: Uint8Array): void {
    this.#total += chunk.byteLength
    if (this.#budget) this.#ask(this.#budget, chunk.byteLength)
    const room = Math.min(this.#headLimit - this.#headBytes, chunk.byteLength)
    if (room > 0) {
      this.#head = grown(this.#head, this.#headBytes + room, this.#headLimit)
      this.#head.set(chunk.subarray(0, room), this.#headBytes)
      this.#headBytes += room
    }
    if (room < chunk.byteLength && this.#tailLimit > 0)
      this.#pushTail(chunk.subarray(Math.max(room, chunk.byteLength - this.#tailLimit)))
  }

  #pushTail(rest: Uint8Array): void {
    const size = Math.min(this.#tailLimit, this.#tailBytes + rest.byteLength)
    if (size > this.#tail.byteLength) {
      this.#tail = grown(this.#tailInOrder(), size, this.#tailLimit)
      this.#tailStart = 0
    }
    const ring = this.#tail
    const at = (this.#tailStart + this.#tailBytes) % ring.byteLength
    const untilEnd = Math.min(rest.byteLength, ring.byteLength - at)
    ring.set(rest.subarray(0, untilEnd), at)
    ring.set(rest.subarray(untilEnd), 0)
    const dropped = this.#tailBytes + rest.byteLength - size
    this.#tailStart = (this.#tailStart + dropped) % ring.byteLength
    this.#tailBytes = size
  }

  #tailInOrder(): Uint8Array<ArrayBuffer> {
    const end = this.#tailStart + this.#tailBytes
    const first = this.#tail.subarray(this.#tailStart, end)
    return end <= this.#tail.byteLength
      ? first
      : join([first, this.#tail.subarray(0, end - this.#tail.byteLength)], this.#tailBytes)
  }

  get truncated(): boolean {
    return this.#total > this.#headBytes + this.#tailBytes
  }

  result(): { bytes: Uint8Array<ArrayBuffer>; omitted: number } {
    const [head, tail] = this.#parts()
    const bytes = join([head, tail], head.byteLength + tail.byteLength)
    return { bytes, omitted: this.#total - bytes.byteLength }
  }

  /**
   * The whole text, or head and tail around a line with the number of missing bytes. `maxBytes` can shorten it
   * further.
   */
  text(maxBytes = Infinity): string {
    const short = this.#headBytes + this.#tailBytes > maxBytes
    if (!this.truncated && !short) return decode(this.result().bytes)
    const [head, tail] = short ? shortened(this.result().bytes, maxBytes) : this.#parts()
    const first = head.subarray(0, lastBoundary(head))
    const last = tail.subarray(firstBoundary(tail))
    const missing = this.#total - first.byteLength - last.byteLength
    return `${decode(first)}\n[… ${missing} bytes left out …]\n${decode(last)}`
  }

  /** Once the budget is used up, the head ends here and the tail does not grow. */
  #ask(budget: OutputBudget, size: number): void {
    const wanted = Math.min(this.#maxBytes, this.#headBytes + this.#tailBytes + size)
    if (wanted <= this.#granted) return
    const more = Math.min(this.#maxBytes, Math.max(wanted, this.#granted + stepBytes)) - this.#granted
    if (budget.take(more)) {
      this.#granted += more
      return
    }
    this.#budget = undefined
    const head = Math.min(this.#headLimit, freeBytes / 2)
    this.#headLimit = Math.max(this.#headBytes, head)
    this.#tailLimit = Math.min(this.#tailLimit, Math.max(this.#tailBytes, freeBytes / 2))
  }

  #parts(): [head: Uint8Array, tail: Uint8Array] {
    return [this.#head.subarray(0, this.#headBytes), this.#tailInOrder()]
  }
}

function shortened(bytes: Uint8Array, maxBytes: number): [head: Uint8Array, tail: Uint8Array] {
  const half = Math.floor(maxBytes / 2)
  return [bytes.subarray(0, half), bytes.subarray(bytes.byteLength - half)]
}

/** Grows to `size`, or at least to twice the old size, so that growing is rare. */
function grown(bytes: Uint8Array<ArrayBuffer>, size: number, limit: number): Uint8Array<ArrayBuffer> {
  if (size <= bytes.byteLength) return bytes
  const larger = new Uint8Array(Math.min(limit, Math.max(size, bytes.byteLength * 2, 1024)))
  larger.set(bytes)
  return larger
}

function join(chunks: readonly Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.byteLength
  }
  return all
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
}

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80

function lastBoundary(bytes: Uint8Array): number {
  let start = bytes.byteLength - 1
  while (start > 0 && bytes.byteLength - start < 4 && isContinuation(bytes[start])) start -= 1
  const lead = bytes[start] ?? 0
  const size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1
  return start + size > bytes.byteLength ? start : bytes.byteLength
}

function firstBoundary(bytes: Uint8Array): number {
  let at = 0
  while (at < 3 && isContinuation(bytes[at])) at += 1
  return at
}
