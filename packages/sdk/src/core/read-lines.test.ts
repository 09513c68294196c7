import { describe, expect, it } from 'vitest'
import { checkRange, linesOf } from './read-lines.ts'

const text = (value: string) => new TextEncoder().encode(value)

describe('linesOf', () => {
  it('stops reading after the first byte that follows the last requested line', async () => {
    let pulled = 0
    let closed = false
    async function* endless() {
      try {
        for (;;) {
          pulled += 1
          yield text(`line ${pulled}\n`)
        }
      } finally {
        closed = true
      }
    }
    const found = await linesOf('f', endless(), checkRange({ startLine: 3, endLine: 4 }), undefined)
    expect(found).toEqual({ lines: ['line 3', 'line 4'], startLine: 3, cutLines: [], more: true })
    expect([pulled, closed]).toEqual([5, true])
  })

  it('keeps only the requested lines of a large file in memory', async () => {
    const chunk = new Uint8Array(1024 * 1024).fill(0x61)
    chunk[chunk.length - 1] = 0x0a
    let most = 0
    const before = process.memoryUsage().arrayBuffers
    async function* gigabytes() {
      for (let at = 0; at < 4096; at += 1) {
        most = Math.max(most, process.memoryUsage().arrayBuffers - before)
        yield chunk
      }
    }
    const found = await linesOf('f', gigabytes(), checkRange({ startLine: 4095 }), undefined)
    expect([found.lines.length, found.cutLines, found.totalLines]).toEqual([2, [4095, 4096], 4096])
    expect(most).toBeLessThan(8 * 1024 * 1024)
  })

  it('joins characters and line endings that arrive in single bytes', async () => {
    async function* bytes() {
      for (const byte of text('ä\r\n😀\r\nz')) yield Uint8Array.of(byte)
    }
    const { lines } = await linesOf('f', bytes(), checkRange({ maxLineBytes: 4 }), undefined)
    expect(lines).toEqual(['ä', '😀', 'z'])
  })

  it('refuses more lines than the limit', async () => {
    async function* newlines() {
      for (let at = 0; at < 20; at += 1) yield new Uint8Array(100_000).fill(0x0a)
    }
    await expect(linesOf('f', newlines(), checkRange({}), undefined)).rejects.toMatchObject({
      code: 'too_large',
      details: { line: 1_000_001 },
    })
  })
})
