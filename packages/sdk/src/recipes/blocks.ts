/** Regroups chunks to about this size: thousands of tiny writes are slow on every provider. */
export async function* inBlocks(
  chunks: AsyncIterable<Uint8Array | string>,
  blockBytes = 256 * 1024,
): AsyncGenerator<Uint8Array> {
  let waiting: Uint8Array[] = []
  let size = 0
  for await (const chunk of chunks) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
    waiting.push(bytes)
    size += bytes.byteLength
    if (size < blockBytes) continue
    yield waiting.length === 1 ? bytes : Buffer.concat(waiting)
    waiting = []
    size = 0
  }
  if (size > 0) yield Buffer.concat(waiting)
}
