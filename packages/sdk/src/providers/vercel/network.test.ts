import { describe, expect, it } from 'vitest'
import { normalizeNetwork } from '../../core/network/normalize.ts'
import { secret } from '../../core/network/secret.ts'
import { networkPolicyOf } from './network.ts'

const policy = (network: unknown) => networkPolicyOf(normalizeNetwork(network), { git: 'value' })

describe('network policy', () => {
  it.each([
    ['none', 'deny-all'],
    ['open', 'allow-all'],
    [{ allow: [] }, { allow: {}, subnets: { allow: [], deny: [] } }],
    [
      { allow: ['github.com', '*.example.com', '198.51.100.0/24'], deny: ['198.51.100.7'] },
      {
        allow: { 'github.com': [], '*.example.com': [] },
        subnets: { allow: ['198.51.100.0/24'], deny: ['198.51.100.7/32'] },
      },
    ],
  ])('of %j', async (network, expected) => {
    expect(await policy(network)).toEqual(expected)
  })

  it('has transforms at allowed hosts only, with path and methods', async () => {
    const transform = [
      {
        match: { host: 'api.example.com', path: '/repos/', method: ['GET', 'HEAD'] },
        headers: { authorization: secret('git', { prefix: 'Bearer ' }) },
      },
      { match: { host: '*.example.com' }, headers: { 'x-team': 'a' } },
      { match: { host: 'elsewhere.com' }, headers: { 'x-team': 'a' } },
    ]
    const team = { transform: [{ headers: { 'x-team': 'a' } }] }
    expect(await policy({ allow: ['*.example.com', 'other.com'], transform })).toEqual({
      allow: {
        '*.example.com': [team],
        'other.com': [],
        'api.example.com': [
          {
            match: { path: { startsWith: '/repos/' }, method: ['GET', 'HEAD'] },
            transform: [{ headers: { authorization: 'Bearer value' } }],
          },
          team,
        ],
      },
      subnets: { allow: [], deny: [] },
    })
  })

  it.each([
    [{ allow: ['a.com'], deny: ['b.com'] }, 'deny[0]'],
    [{ allow: ['198.51.100.0/24'], deny: ['198.51.100.7:22'] }, 'deny[0]'],
    [{ allow: ['a.com:443'] }, 'allow[0]'],
    [{ allow: ['preset:packages'] }, 'allow[0]'],
    [{ allow: [], services: { model: { host: '127.0.0.1', port: 1 } } }, 'services'],
  ])('%j is unsupported', async (network, rule) => {
    await expect(policy(network)).rejects.toMatchObject({
      code: 'unsupported',
      provider: 'vercel',
      details: { rule },
    })
  })
})
