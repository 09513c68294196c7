import { describe, expect, it } from 'vitest'
import { normalizeNetwork } from '../../core/network/normalize.ts'
import { createParams } from './create-params.ts'
import { keptRules, networkSettingsOf, replacing } from './network.ts'

const settings = (network: unknown) => networkSettingsOf(normalizeNetwork(network))

describe('network settings', () => {
  it.each([
    ['none', { networkBlockAll: true }],
    ['open', { networkBlockAll: false }],
    [{ allow: [] }, { networkBlockAll: true }],
    [
      { allow: ['github.com', '*.example.com', '198.51.100.7'] },
      {
        networkBlockAll: false,
        domainAllowList: 'github.com,*.example.com',
        networkAllowList: '198.51.100.7/32',
      },
    ],
  ])('of %j', (network, expected) => {
    expect(settings(network)).toEqual(expected)
  })

  it.each([
    [{ allow: ['github.com:22'] }, 'allow[0]'],
    [{ allow: ['a.com', { host: 'b.com', protocol: 'tls' }] }, 'allow[1]'],
    [{ allow: ['preset:github'] }, 'allow[0]'],
    [{ allow: ['2001:db8::/32'] }, 'allow[0]'],
    [{ allow: ['a.com'], deny: ['b.com'] }, 'deny[0]'],
    [{ allow: ['a.com'], transform: [{ match: { host: 'a.com' }, headers: { a: 'b' } }] }, 'transform[0]'],
    [{ allow: [], services: { model: { host: '127.0.0.1', port: 1 } } }, 'services'],
    [{ allow: [], audit: true }, 'audit'],
    [{ allow: [], limits: { connections: 1 } }, 'limits'],
  ])('%j is unsupported', (network, rule) => {
    let error: unknown
    try {
      settings(network)
    } catch (thrown) {
      error = thrown
    }
    expect(error).toMatchObject({ code: 'unsupported', provider: 'daytona', details: { rule } })
    expect((error as Error).message).toContain(`network.${rule}`)
  })

  it('clear the other list in an update, and an uncleared one is found', () => {
    const domains = settings({ allow: ['a.com'] })
    expect(replacing(domains)).toEqual({
      networkBlockAll: false,
      networkAllowList: '',
      domainAllowList: 'a.com',
    })
    expect(replacing(settings('open'))).toEqual({ networkBlockAll: false })
    expect(keptRules(domains, { networkAllowList: '10.0.0.0/8' })).toBe('networkAllowList')
    expect(keptRules(domains, { domainAllowList: 'a.com', networkAllowList: '' })).toBeUndefined()
  })

  it('are not mixed with the vendor’s own options', async () => {
    const spec = { labels: {}, envVars: {}, deferReady: false, network: 'none' } as const
    await expect(
      createParams({ ...spec, providerOptions: { networkBlockAll: false } }, 'id', {}),
    ).rejects.toMatchObject({ code: 'invalid_argument' })
    expect(await createParams(spec, 'id', {})).toMatchObject({ networkBlockAll: true })
  })
})
