import { expect, it } from 'vitest'
import { literalOf } from './literals.ts'

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

it.each([
  // Too short for a secret, and these would spoil the answers of servers.
  ['x-version', '1', '1'],
  ['x-tenant', 'acme', 'acme'],
  ['content-type', 'application/json', 'application/json'],
  ['x-github-api-version', '2022-11-28', '2022-11-28'],
  ['authorization', 'Bearer sk-1234567', { prefix: 'Bearer ', value: 'sk-1234567' }],
  ['authorization', 'Bearer abc', { value: 'Bearer abc' }],
  ['authorization', basic('user:password'), { basic: 'user', value: 'password' }],
  ['authorization', basic('user:pw'), { prefix: 'Basic ', value: basic('user:pw').slice(6) }],
  ['authorization', `${basic('user:password')}=`, { prefix: 'Basic ', value: expect.any(String) }],
  ['x-api-key', 'sk-1234567', { value: 'sk-1234567' }],
  ['x-note', 'two words and more', { value: 'two words and more' }],
])('%s: %s', (name, value, expected) => {
  expect(literalOf(name, value)).toEqual(expected)
})

it.each([['x'.repeat(4_097)], ['token\twith a tab']])('refuses %.20j without showing it', (value) => {
  try {
    literalOf('authorization', value)
    expect.unreachable()
  } catch (error) {
    const { message, hint } = error as { message: string; hint: string }
    expect(message).toContain('"authorization"')
    expect(`${message}${hint}`).not.toContain(value)
  }
})
