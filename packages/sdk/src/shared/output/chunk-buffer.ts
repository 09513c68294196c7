const blockBytes = 16 * 1024

/**
 * A queue of bytes that copies what it keeps: a small chunk may be a view of a much larger buffer, and small chunks
 * share a block, so that memory use follows `byteLength`.
 */
export class ChunkBuffer {
  #blocks: Array<{ bytes: Uint8Array; used: number }> = []
  #byteLength = 0

  get byteLength(): number {
    return this.#byteLength
  }

  push(chunk: Uint8Array): void {
    this.#byteLength += chunk.byteLength
    for (let at = 0; at < chunk.byteLength; ) {
      let last = this.#blocks.at(-1)
      if (!last || last.used === last.bytes.byteLength) {
        last = { bytes: new Uint8Array(Math.max(blockBytes, chunk.byteLength - at)), used: 0 }
        this.#blocks.push(last)
      }
      const part = chunk.subarray(at, at + last.bytes.byteLength - last.used)
      last.bytes.set(part, last.used)
      last.used += part.byteLength
      at += part.byteLength
    }
  }

  /** The oldest bytes, or undefined if the buffer is empty. */
  shift(): Uint8Array | undefined {
    const block = this.#blocks.shift()
    if (!block) return undefined
    this.#byteLength -= block.used
    return block.bytes.subarray(0, block.used)
  }

  clear(): void {
    this.#blocks = []
    this.#byteLength = 0
  }
}
