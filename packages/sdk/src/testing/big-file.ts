/**
 * A file of any size that is never in memory as a whole: its blocks are windows into one table, so they are generated
 * and checked chunk by chunk.
 */
const block = 64 * 1024
const shifts = 251
const table = Uint8Array.from(
  { length: block + shifts },
  (_, index) => (index * 167 + (index >> 8) * 31) & 0xff,
)

export async function* bigBlocks(size: number, onBlock: () => void): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < size; at += block) {
    onBlock()
    yield expected(at, Math.min(block, size - at))
  }
}

/** Throws if the bytes differ from the file's content at this position. */
export function checkBig(chunk: Uint8Array, from: number): void {
  for (let at = 0; at < chunk.byteLength; ) {
    const length = Math.min(chunk.byteLength - at, block - ((from + at) % block))
    const wanted = expected(from + at, length)
    for (let index = 0; index < length; index += 1) {
      if (chunk[at + index] !== wanted[index])
        throw new Error(`byte ${from + at + index} of the big file is wrong`)
    }
    at += length
  }
}

function expected(at: number, length: number): Uint8Array {
  const shift = Math.floor(at / block) % shifts
  const start = shift + (at % block)
  return table.subarray(start, start + length)
}
