import { describe, expect, it } from 'vitest'
import { ResultMemory } from './result-memory.ts'
import { fitMemory, fitTexts, fitted } from './result-size.ts'

const facts = { exitCode: 0, timedOut: false, truncated: false, durationMs: 1 }
const size = (result: object) => Buffer.byteLength(JSON.stringify(result))

describe('a result that must fit', () => {
  it('stays the same object while it fits', async () => {
    const result = { ...facts, stdout: 'a'.repeat(50_000), stderr: '\0'.repeat(5_000) }
    expect(await fitted(result, 100_000)).toBe(result)
  })

  it.each([
    ['NUL', '\0'],
    ['quotation marks', '"'],
    ['plain text', 'a'],
    ['characters of three bytes', '…'],
    ['characters of two units', '🦊'],
    ['half characters', '\ud83e'],
  ])('keeps beginning and end of %s, within the limit', async (_, unit) => {
    const text = `begin${unit.repeat(400_000)}end`
    const fit = await fitted({ ...facts, stdout: text, stderr: text }, 300_000)
    expect(size(fit)).toBeLessThan(301_000)
    expect(size(fit)).toBeGreaterThan(150_000)
    expect(fit.truncated).toBe(true)
    for (const kept of [fit.stdout, fit.stderr]) {
      expect(kept.startsWith('begin')).toBe(true)
      expect(kept.endsWith('end')).toBe(true)
    }
    if (unit === '🦊') expect(fit.stdout.isWellFormed()).toBe(true)
  })

  it('is measured as JSON, for every kind of character', async () => {
    const units = [...Array(0x80).keys(), 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0xd83e, 0xdd8a]
    const texts = [
      ...units.map((unit) => String.fromCharCode(unit)),
      '🦊',
      '\udd8a\ud83e',
      '\ud83e\ud83e\udd8a',
    ]
    for (const text of texts) {
      const many = text.repeat(1000)
      const bytes = Buffer.byteLength(JSON.stringify(many))
      // A text exactly at the limit stays. With a lower limit it is cut.
      expect(await fitTexts([many], bytes), JSON.stringify(text)).toEqual([many])
      expect(await fitTexts([many], bytes - 3), JSON.stringify(text)).not.toEqual([many])
    }
  })

  it('cuts only the stream that is too large', async () => {
    const fit = await fitted({ ...facts, stdout: 'a'.repeat(1_000_000), stderr: 'whole' }, 100_000)
    expect(fit.stderr).toBe('whole')
    expect(fit.stdout.length).toBeGreaterThan(80_000)
  })

  it('with three texts stays within the limit', async () => {
    const texts = await fitTexts(['a'.repeat(400_000), 'b'.repeat(400_000), 'c'], 300_000)
    expect(size(texts)).toBeLessThan(301_000)
    expect(size(texts)).toBeGreaterThan(280_000)
  })

  it('is cut when its project has no memory left, without effect on other projects', async () => {
    const memory = new ResultMemory(1_000_000)
    const [first, second, other] = [memory.open('p'), memory.open('p'), memory.open('q')]
    const result = { ...facts, stdout: 'a'.repeat(2_000_000), stderr: '' }
    expect(size(await fitMemory(first, result, 900_000))).toBeGreaterThan(800_000)
    expect(size(await fitMemory(second, result, 900_000))).toBeLessThan(130_000)
    expect(size(await fitMemory(other, result, 900_000))).toBeGreaterThan(800_000)
    first.release()
    expect(size(await fitMemory(second, result, 900_000))).toBeGreaterThan(800_000)
    for (const account of [second, other]) account.release()
    expect(memory.usedBytes).toBe(0)
    expect(first.take(1)).toBe(false)
  })
})
