import { describe, expect, it } from 'vitest'
import { ChunkBuffer } from './chunk-buffer.ts'

describe('ChunkBuffer', () => {
  it('returns the bytes in order, whatever their chunks were', () => {
    const buffer = new ChunkBuffer()
    const all: number[] = []
    for (const size of [1, 0, 20_000, 3, 16_384, 5, 40_000]) {
      const chunk = Uint8Array.from({ length: size }, (_, at) => (all.length + at) % 251)
      all.push(...chunk)
      buffer.push(chunk)
      chunk.fill(255)
    }
    expect(buffer.byteLength).toBe(all.length)
    const read: number[] = []
    for (let chunk = buffer.shift(); chunk; chunk = buffer.shift()) read.push(...chunk)
    expect(read).toEqual(all)
    expect(buffer.byteLength).toBe(0)
  })

  it('does not keep the larger buffer of a small chunk', () => {
    const buffer = new ChunkBuffer()
    buffer.push(new Uint8Array(1_000_000).subarray(0, 1))
    expect(buffer.shift()!.buffer.byteLength).toBeLessThan(20_000)
  })
})
