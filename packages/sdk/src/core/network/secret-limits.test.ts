import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { checkSecretValue, secretLimits } from './secret-limits.ts'

it.each(['abcdef', 'a b c d', 'x'.repeat(4096), '~!"#$%'])('accepts %.20j', (value) => {
  expect(checkSecretValue(value, 'It')).toBe(value)
})

it.each([
  ['', 'invalid_argument', 'shorter than 6'],
  ['abcde', 'invalid_argument', 'shorter than 6'],
  ['abc\tdef', 'invalid_argument', 'printable'],
  ['abc\ndef', 'invalid_argument', 'printable'],
  ['abcdefü', 'invalid_argument', 'printable'],
  ['x'.repeat(4097), 'too_large', '4096'],
  [1234567, 'invalid_argument', 'not text'],
])('refuses %.20j without showing it', (value, code, words) => {
  try {
    checkSecretValue(value, 'The value of the secret “github”')
    expect.unreachable()
  } catch (error) {
    const { message, hint } = error as { message: string; hint: string }
    expect(error).toMatchObject({ code, message: expect.stringContaining(words) })
    if (String(value).length > 3) expect(`${message}${hint}`).not.toContain(String(value))
  }
})

it('has the limits of the gateway', () => {
  const source = readFileSync(
    new URL('../../../../../gateway/src/transform/secrets.rs', import.meta.url),
    'utf8',
  )
  const constant = (name: string) => {
    const [, text = ''] = new RegExp(`const ${name}: usize = ([\\d *]+);`).exec(source) ?? []
    return text.split('*').reduce((product, factor) => product * Number(factor), 1)
  }
  expect({
    leastBytes: constant('MIN_BYTES'),
    mostBytes: constant('MAX_BYTES'),
    perPolicy: constant('MAX_SECRETS'),
    policyBytes: constant('MAX_TOTAL'),
  }).toEqual(secretLimits)
})
