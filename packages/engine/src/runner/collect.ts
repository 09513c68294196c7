/**
 * Output kept in bounded memory: the first bytes and the last, and how many were left out between them. The beginning says what
 * was run, the end says how it went wrong; keeping only one of them loses the other.
 */

export interface Collected {
  bytes: Buffer
  /** Bytes left out of the middle. */
  omitted: number
}

export class HeadTail {
  readonly #headLimit: number
  readonly #tailLimit: number
  #head: Buffer[] = []
  #headLength = 0
  #tail: Buffer[] = []
  #tailLength = 0
  #total = 0

  constructor(limit: number) {
    this.#headLimit = Math.ceil(limit / 2)
    this.#tailLimit = Math.floor(limit / 2)
  }

  push(data: Buffer): void {
    this.#total += data.length
    const room = Math.min(this.#headLimit - this.#headLength, data.length)
    if (room > 0) {
      // A copy: a view would keep the whole chunk it came in.
      this.#head.push(Buffer.from(data.subarray(0, room)))
      this.#headLength += room
    }
    if (room === data.length || this.#tailLimit === 0) return
    const rest = Buffer.from(data.subarray(Math.max(room, data.length - this.#tailLimit)))
    this.#tail.push(rest)
    this.#tailLength += rest.length
    while (this.#tailLength - (this.#tail[0] as Buffer).length >= this.#tailLimit) {
      this.#tailLength -= (this.#tail.shift() as Buffer).length
    }
    // Many small chunks must not cost more than their bytes.
    if (this.#tail.length > 1024) this.#tail = [Buffer.concat(this.#tail)]
    if (this.#head.length > 1024) this.#head = [Buffer.concat(this.#head)]
  }

  result(): Collected {
    const tail = Buffer.concat(this.#tail)
    const kept = tail.subarray(Math.max(0, tail.length - this.#tailLimit))
    const bytes = Buffer.concat([...this.#head, kept])
    return { bytes, omitted: this.#total - bytes.length }
  }
}
