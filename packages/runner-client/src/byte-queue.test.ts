import { describe, expect, it } from 'vitest'
import { ByteQueue } from './byte-queue.ts'
import { Random } from './test-helper.ts'

describe('a queue of bytes', () => {
  it('returns the same bytes for all chunk sizes of writes and reads', () => {
    const random = new Random()
    for (let round = 0; round < 50; round += 1) {
      const queue = new ByteQueue()
      const sent: Buffer[] = []
      const got: Buffer[] = []
      for (let step = 0; step < 60; step += 1) {
        const volatile = random.bytes(random.below(round % 2 === 0 ? 200_000 : 50))
        sent.push(Buffer.from(volatile))
        queue.push(volatile, random.below(2) === 0)
        // The sender reuses its memory.
        volatile.fill(0)
        if (random.below(3) === 0 && queue.length > 0) got.push(queue.take())
        const view = Buffer.alloc(random.below(100_000))
        got.push(view.subarray(0, queue.takeInto(view)))
      }
      while (queue.length > 0) got.push(queue.take())
      expect(Buffer.concat(got).equals(Buffer.concat(sent)), `seed ${random.seed}`).toBe(true)
    }
  })

  it('never reuses memory that it has handed out', () => {
    const queue = new ByteQueue()
    const block = Buffer.alloc(64 * 1024, 1)
    queue.push(block, true)
    const given = queue.take()
    for (let round = 0; round < 200; round += 1) {
      queue.push(Buffer.alloc(64 * 1024, 2), true)
      queue.takeInto(block)
    }
    expect(given.every((byte) => byte === 1)).toBe(true)
  })

  it('returns nothing when empty or cleared', () => {
    const queue = new ByteQueue()
    expect(queue.takeInto(Buffer.alloc(8))).toBe(0)
    queue.push(Buffer.from('abc'), true)
    queue.clear()
    expect(queue.length).toBe(0)
    expect(queue.takeInto(Buffer.alloc(8))).toBe(0)
  })
})
