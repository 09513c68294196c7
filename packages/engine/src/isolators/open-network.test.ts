import { describe, expect, it } from 'vitest'
import { checkedAllow, openRules } from './open-network.ts'

describe('rules of the network open', () => {
  it('list allowed addresses before the host’s blocked addresses, and allowed networks after them', () => {
    const rules = openRules({ allow: ['10.1.0.0/16', '192.168.0.7', 'fd00::5/128'] }, ['192.0.0.3'])
    const own = rules.indexOf('own')
    expect(rules.slice(0, own)).toEqual([
      'accept 192.0.0.3/32 53',
      'accept 192.168.0.7/32',
      'accept fd00::5/128',
    ])
    expect(rules[own + 1]).toBe('accept 10.1.0.0/16')
    expect(rules.indexOf('reject 10.0.0.0/8')).toBeGreaterThan(own)
    expect(rules.slice(-2)).toEqual(['reject ::/0', 'accept 0.0.0.0/0'])
  })

  it.each([
    'example.com',
    '10.0.0.0/33',
    'fd00::/129',
    '10.0.0.0/8/8',
    '010.0.0.1',
    '10.0.0.0/',
    '10.0.0.0/-1',
    '127.0.0.1',
    '::1',
    '::ffff:10.0.0.1',
    'ff02::1',
    '224.0.0.1/32',
    'fe80::1%eth0',
    '',
  ])('reject “%s”', (text) => {
    expect(() => checkedAllow([text])).toThrow(/openNetwork\.allow/)
  })

  it('are limited in number', () => {
    expect(() => checkedAllow(Array.from({ length: 257 }, () => '10.0.0.1'))).toThrow(/too many/)
    expect(checkedAllow(Array.from({ length: 256 }, () => '10.0.0.1'))).toHaveLength(256)
  })
})
