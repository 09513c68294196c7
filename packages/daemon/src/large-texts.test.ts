import { describe, expect, it } from 'vitest'
import { jsonChunks, longChars, nextTurn, stepChars } from './large-texts.ts'

describe('steps on large texts', () => {
  it('take turns, one in each pass of the event loop', async () => {
    const busy = (ms: number) => {
      for (const until = performance.now() + ms; performance.now() < until; );
    }
    let steps = 0
    let ended = false
    const work = async () => {
      for (let step = 0; step < 20; step += 1) {
        await nextTurn()
        busy(5)
        steps += 1
      }
    }
    const all = Promise.all([work(), work(), work()]).then(() => {
      ended = true
    })
    // At most one step runs between two passes of the event loop, for all callers together.
    let most = 0
    for (let before = steps; !ended; before = steps) {
      await new Promise((resolve) => setImmediate(resolve))
      most = Math.max(most, steps - before)
    }
    await all
    expect(steps).toBe(60)
    expect(most).toBe(1)
  })
})

describe('JSON in chunks', () => {
  const long = (unit: string) => unit.repeat(Math.ceil((3 * stepChars) / unit.length))
  const joined = async (value: Record<string, unknown>) => {
    let text = ''
    for await (const piece of jsonChunks(value)) text += piece
    return text
  }

  it.each([
    ['nothing', {}],
    ['no long text', { a: 1, b: 'x', c: [1, { d: null }], e: undefined }],
    ['a long text alone', { a: long('x') }],
    ['long texts between others', { a: 1, b: long('"\\\n'), c: true, d: long('\0'), e: 'end' }],
    ['characters of two units', { a: `x${long('🦊')}`, b: long('🦊') }],
    ['half characters', { a: long('\ud83e'), b: long('\udd8a') }],
    ['a long text further in', { id: 'x', result: { code: 0, stdout: long('é'), stderr: '' }, last: [] }],
  ])('is that of JSON.stringify: %s', async (_, value) => {
    expect(JSON.parse(await joined(value))).toEqual(JSON.parse(JSON.stringify(value)))
  })

  it('is used only for long texts', () => {
    expect(longChars({ a: long('x') })).toBe(3 * stepChars)
    expect(longChars({ a: { b: long('x'), c: long('y') } })).toBe(6 * stepChars)
    for (const value of [undefined, null, 'x', 1, [long('x')], { a: 'x', b: { c: 1 } }])
      expect(longChars(value)).toBe(0)
  })
})
