import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { decrypt, encrypt, keyIdOf, mostTextBytes, type Place } from './cipher.ts'
import { newKey, parseKey, textOf } from './key.ts'

const place: Place = { table: 'sandboxes', column: 'env', row: 'row-1' }
const text = '{"TOKEN":"a-token-for-tests"}'

const refusal = expect.objectContaining({
  code: 'unauthenticated',
  message: 'The encrypted sandboxes.env of row-1 cannot be read.',
})

describe('an encrypted value', () => {
  it.each(['', text, 'ü\u0000😀', 'x'.repeat(mostTextBytes)])(
    'opens with its key at its place (%#)',
    (given) => {
      const key = newKey()
      const sealed = encrypt(given, key, place)
      expect(keyIdOf(sealed, place)).toBe(key.id)
      expect(decrypt(sealed, key, place)).toBe(given)
    },
  )

  it('is different each time, and never contains the text', () => {
    const key = newKey()
    const sealed = Array.from({ length: 1000 }, () => encrypt(text, key, place))
    expect(new Set(sealed.map((one) => one.slice(0, 21 + 16))).size).toBe(1000)
    expect(sealed.join('')).not.toContain('token')
  })

  it('opens neither with another key nor in another table, column or row', () => {
    const key = newKey()
    const sealed = encrypt(text, key, place)
    expect(() => decrypt(sealed, { ...newKey(), id: key.id }, place)).toThrow(refusal)
    const others: Place[] = [
      { ...place, table: 'sandbox_providers' },
      { ...place, column: 'opencode_password' },
      { ...place, row: 'row-2' },
      // The same characters, divided differently.
      { ...place, column: 'envrow', row: '-1' },
    ]
    for (const other of others) expect(() => decrypt(sealed, key, other)).toThrow(/cannot be read/)
  })

  it('does not open when any of its bytes was changed', () => {
    const key = newKey()
    const sealed = encrypt(text, key, place)
    const bytes = Buffer.from(sealed.slice(21), 'base64url')
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes)
      changed[at]! ^= 1
      expect(() => decrypt(sealed.slice(0, 21) + changed.toString('base64url'), key, place)).toThrow(refusal)
    }
    for (const length of [38, 60])
      expect(() => decrypt(sealed.slice(0, length + 21), key, place)).toThrow(refusal)
  })

  it('does not open under the id of another key', () => {
    const [key, other] = [newKey(), newKey()]
    const renamed = encrypt(text, key, place).replace(key.id, other.id)
    expect(() => decrypt(renamed, { ...key, id: other.id }, place)).toThrow(refusal)
  })

  it.each([
    '',
    'plain text',
    'sk1:',
    'sk2:0123456789abcdef:AAAA',
    `sk1:0123456789abcdef:${'A'.repeat(37)}`,
    `sk1:0123456789abcdef:${'A'.repeat(800_000)}`,
  ])('is recognised by its form (%#)', (given) => {
    expect(() => keyIdOf(given, place)).toThrow(refusal)
  })

  it('has a largest size', () => {
    expect(() => encrypt('x'.repeat(mostTextBytes + 1), newKey(), place)).toThrow(
      expect.objectContaining({ code: 'too_large' }),
    )
  })

  it('that does not open causes an error without its content and its key', () => {
    const key = newKey()
    const sealed = encrypt(text, key, place)
    try {
      decrypt(sealed, key, { ...place, row: 'row-1', column: 'x' })
      expect.unreachable()
    } catch (error) {
      const shown = inspect(error, { depth: 10, showHidden: true })
      expect(shown).not.toContain(sealed.slice(21))
      expect(shown).not.toContain(textOf(key))
    }
  })
})

describe('a key', () => {
  const bytes = Buffer.from(Array.from({ length: 32 }, (_, at) => (at * 37) % 251))

  it('is read from hex, base64 and base64url, with the same id', () => {
    const ids = [bytes.toString('hex'), bytes.toString('base64'), ` ${bytes.toString('base64url')}\n`].map(
      (given) => parseKey(given, 'KEY').id,
    )
    expect(new Set(ids).size).toBe(1)
    expect(ids[0]).toMatch(/^[0-9a-f]{16}$/)
  })

  it.each([
    '',
    'short',
    '0'.repeat(64),
    bytes.toString('hex').slice(2),
    `${bytes.toString('base64')}AA`,
    'A'.repeat(43),
  ])('is refused without its text, unless it is 32 random bytes (%#)', (given) => {
    try {
      parseKey(given, 'KEY')
      expect.unreachable()
    } catch (error) {
      expect(error).toMatchObject({
        code: 'invalid_argument',
        message: 'KEY is not a key of 32 random bytes.',
      })
      if (given.length > 10) expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(given)
    }
  })

  it('does not show its bytes when it is printed', () => {
    const key = newKey()
    const shown = inspect(key, { depth: 10, showHidden: true }) + JSON.stringify(key)
    for (const encoding of ['base64', 'hex'] as const)
      expect(shown).not.toContain(key.secret.export().toString(encoding))
  })
})
