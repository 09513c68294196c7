/**
 * The head and the tail of a stream, in bounded memory: what a result shows of output that may be endless.
 * The cut never splits a UTF-8 character.
 */
export class HeadTail {
  readonly #half: number
  readonly #head: Uint8Array[] = []
  readonly #tail: Uint8Array[] = []
  #headBytes = 0
  #tailBytes = 0
  #total = 0

  constructor(maxBytes: number) {
    this.#half = Math.max(1, Math.floor(maxBytes / 2))
  }

  push(chunk: Uint8Array): void {
    this.#total += chunk.byteLength
    const room = this.#half - this.#headBytes
    if (room > 0) {
      const part = chunk.subarray(0, room)
      this.#head.push(part)
      this.#headBytes += part.byteLength
      chunk = chunk.subarray(part.byteLength)
    }
    if (chunk.byteLength === 0) return
    this.#tail.push(chunk)
    this.#tailBytes += chunk.byteLength
    while (this.#tailBytes - this.#tail[0]!.byteLength >= this.#half)
      this.#tailBytes -= this.#tail.shift()!.byteLength
  }

  get truncated(): boolean {
    return this.#total > this.#headBytes + Math.min(this.#tailBytes, this.#half)
  }

  /** All of it, or head and tail around a line that says how many bytes are missing. */
  text(): string {
    const head = join(this.#head, this.#headBytes)
    const tail = join(this.#tail, this.#tailBytes)
    if (!this.truncated) return decode(join([head, tail], head.byteLength + tail.byteLength))
    const first = head.subarray(0, lastBoundary(head))
    const last = tail.subarray(tail.byteLength - this.#half)
    const lastWhole = last.subarray(firstBoundary(last))
    const missing = this.#total - first.byteLength - lastWhole.byteLength
    return `${decode(first)}\n[… ${missing} bytes left out …]\n${decode(lastWhole)}`
  }
}

function join(chunks: readonly Uint8Array[], size: number): Uint8Array {
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

/** Where the last character that is whole ends. */
function lastBoundary(bytes: Uint8Array): number {
  let start = bytes.byteLength - 1
  while (start > 0 && bytes.byteLength - start < 4 && isContinuation(bytes[start])) start -= 1
  const lead = bytes[start] ?? 0
  const size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1
  return start + size > bytes.byteLength ? start : bytes.byteLength
}

/** Where the first character that is whole begins. */
function firstBoundary(bytes: Uint8Array): number {
  let at = 0
  while (at < 3 && isContinuation(bytes[at])) at += 1
  return at
}
