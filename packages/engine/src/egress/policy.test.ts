import { type NormalPolicy, normalizeNetwork } from '@sandkasten/sdk/provider'
import { describe, expect, it } from 'vitest'
import { gatewayPolicy } from './policy.ts'

const policyOf = (policy: object) => gatewayPolicy(normalizeNetwork(policy) as NormalPolicy)

describe('gatewayPolicy()', () => {
  it.each([
    [
      'github',
      [
        'github.com',
        'api.github.com',
        'codeload.github.com',
        'uploads.github.com',
        '*.githubusercontent.com',
        'github-cloud.s3.amazonaws.com',
      ],
    ],
    ['anthropic', ['api.anthropic.com']],
    ['openai', ['api.openai.com']],
  ])('the preset %s becomes its hosts, for TLS and HTTP', async (name, hosts) => {
    const { allow } = await policyOf({ allow: [`preset:${name}`] })
    expect(allow).toEqual(hosts.map((host) => ({ host })))
  })

  it('keeps the order of rules around presets, and puts services last', async () => {
    const { allow, deny } = await policyOf({
      allow: ['first.example', 'preset:openai', 'last.example:22'],
      deny: ['gist.github.com'],
      services: { model: { host: '127.0.0.1', port: 8899 }, other: { host: '::1', port: 80 } },
    })
    expect(allow.map((rule) => ('host' in rule ? rule.host : 'service' in rule ? rule.to : rule))).toEqual([
      'first.example',
      'api.openai.com',
      'last.example',
      '127.0.0.1:8899',
      '[::1]:80',
    ])
    expect(deny).toMatchObject([{ host: 'gist.github.com' }])
  })

  it('has no preset left, and the default limits', async () => {
    const policy = await policyOf({ allow: ['preset:github', 'preset:anthropic', 'preset:openai'] })
    expect(JSON.stringify(policy)).not.toContain('preset')
    expect(policy.limits).toEqual({ connections: 512, bytes: null, bytesPerSecond: null })
  })
})
