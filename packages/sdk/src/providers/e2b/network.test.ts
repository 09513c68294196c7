import { describe, expect, it } from 'vitest'
import { normalizeNetwork } from '../../core/network/normalize.ts'
import { secret } from '../../core/network/secret.ts'
import type { SecretSource } from '../../core/network/secret-values.ts'
import { networkOf } from './network.ts'

const egress = (network: unknown, secrets?: SecretSource) => networkOf(normalizeNetwork(network), secrets)
const everything = ['0.0.0.0/0']

describe('egress configuration', () => {
  it.each([
    ['none', { denyOut: everything }],
    ['open', {}],
    [{ allow: [] }, { allowOut: [], denyOut: everything }],
    [
      { allow: ['github.com', '*.example.com', '198.51.100.0/24'] },
      { allowOut: ['github.com', '*.example.com', '198.51.100.0/24'], denyOut: everything },
    ],
  ])('of %j', async (network, expected) => {
    expect(await egress(network)).toEqual(expected)
  })

  it('has the headers of wider patterns at each host, because the vendor uses the closest only', async () => {
    const headers = { authorization: secret('git', { prefix: 'Bearer ' }) }
    const transform = [
      { match: { host: '*.example.com' }, headers: { 'x-team': 'a' } },
      { match: { host: 'api.example.com' }, headers },
    ]
    const { rules } = await egress({ allow: ['*.example.com'], transform }, { git: 'value' })
    expect(rules).toEqual({
      '*.example.com': [{ transform: { headers: { 'x-team': 'a' } } }],
      'api.example.com': [
        { transform: { headers: { 'x-team': 'a' } } },
        { transform: { headers: { authorization: 'Bearer value' } } },
      ],
    })
  })

  it('has the values of secrets from an object or a function', async () => {
    const headers = { authorization: secret('git', { basic: 'user' }) }
    const network = { allow: ['a.com'], transform: [{ match: { host: 'a.com' }, headers }] }
    const expected = { 'a.com': [{ transform: { headers: { authorization: 'Basic dXNlcjpwYXNz' } } }] }
    expect((await egress(network, { git: 'pass' })).rules).toEqual(expected)
    expect((await egress(network, async (name) => (name === 'git' ? 'pass' : undefined))).rules).toEqual(
      expected,
    )
    await expect(egress(network)).rejects.toMatchObject({
      code: 'invalid_argument',
      details: { secret: 'git' },
      hint: expect.stringContaining('secrets'),
    })
    const error = await egress(network, { git: 'two\nlines' }).catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 'invalid_argument', details: { secret: 'git' } })
    expect(JSON.stringify([error.message, error.hint, error.details])).not.toContain('lines"')
    await expect(egress(network, Object.create({ git: 'inherited' }))).rejects.toMatchObject({
      code: 'invalid_argument',
    })
  })

  it.each([
    [{ allow: ['a.com'], deny: ['198.51.100.7'] }, 'deny[0]'],
    [{ allow: ['a.com:22'] }, 'allow[0]'],
    [{ allow: ['2001:db8::7'] }, 'allow[0]'],
    [
      { allow: ['a.com'], transform: [{ match: { host: 'a.com', path: '/x' }, headers: { a: 'b' } }] },
      'transform[0]',
    ],
    [
      { allow: ['a.com'], transform: [{ match: { host: 'a.com', method: 'GET' }, headers: { a: 'b' } }] },
      'transform[0]',
    ],
  ])('%j is unsupported', async (network, rule) => {
    await expect(egress(network)).rejects.toMatchObject({
      code: 'unsupported',
      provider: 'e2b',
      details: { rule },
    })
  })
})
