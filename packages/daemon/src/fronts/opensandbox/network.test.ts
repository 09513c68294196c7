import { expect, it } from 'vitest'
import { networkFor, policyView } from './network.ts'
import { networkPolicy } from './schemas.ts'

const place = (...allowed: Array<'none' | 'open' | 'policy'>) => ({
  rules: { allowed_networks: allowed },
  provider: { capabilities: { egress: 'native' as const } },
})
const policy = (given: object) => networkPolicy.parse(given)
const allow = (target: string) => ({ action: 'allow', target })
const deny = (target: string) => ({ action: 'deny', target })

it('policies map to a network, or are refused', () => {
  const of = (given: object) => networkFor(policy(given), place('none'))
  expect(networkFor(undefined, place('none'))).toBeUndefined()
  expect(of({})).toBe('none')
  expect(of({ defaultAction: 'allow' })).toBe('open')
  expect(of({ defaultAction: 'deny', egress: [deny('x')] })).toBe('none')
  // Where there are policies, a closed sandbox can get rules later.
  expect(networkFor(policy({}), place('none', 'policy'))).toEqual({ allow: [] })
  expect(() => of({ defaultAction: 'allow', egress: [deny('x')] })).toThrow('not supported')
})

it('everything but some targets is a policy, where there are policies', () => {
  const all = ['*', '0.0.0.0/0', '::/0']
  const of = (...egress: object[]) =>
    networkFor(policy({ defaultAction: 'allow', egress }), place('open', 'policy'))
  expect(of(deny('x.example'), deny('8.8.8.0/24'))).toEqual({ allow: all, deny: ['x.example', '8.8.8.0/24'] })
  expect(of(allow('y.example'))).toBe('open')
  // The earlier rule decides.
  expect(of(allow('*.b.com'), deny('x.b.com'))).toEqual({ allow: all, deny: [] })
  expect(() => of(allow('x.b.com'), deny('*.b.com'))).toThrow('not supported')
  const shown = policyView({
    allow: [{ host: '*' }, { cidr: '0.0.0.0/0' }, { cidr: '::/0' }],
    deny: [{ host: 'c.com' }],
    transform: [],
    services: [],
    audit: false,
    limits: {},
  })
  expect(shown).toEqual({ defaultAction: 'allow', egress: [deny('c.com')] })
})

it('denies of networks, addresses and ports are not lost', () => {
  const of = (...egress: object[]) => networkFor(policy({ egress }), place('policy'))
  expect(of(deny('8.8.8.8'), allow('8.0.0.0/7'))).toEqual({ allow: ['8.0.0.0/7'], deny: ['8.8.8.8'] })
  expect(of(allow('8.0.0.0/7'), deny('8.8.8.8'))).toEqual({ allow: ['8.0.0.0/7'], deny: [] })
  expect(() => of(allow('8.8.8.8'), deny('8.0.0.0/7'), allow('9.0.0.1'))).toThrow('not supported')
  // A name can have any address.
  expect(of(deny('8.8.8.0/24'), allow('dns.example'))).toMatchObject({ deny: ['8.8.8.0/24'] })
  expect(of(deny('b.com'), allow('b.com:22'))).toMatchObject({ deny: ['b.com'] })
})

it('the first rule that matches decides', () => {
  const of = (...egress: object[]) => networkFor(policy({ egress }), place('policy'))
  expect(of(allow('a.com'), allow('*.b.com'))).toEqual({ allow: ['a.com', '*.b.com'], deny: [] })
  expect(of(deny('x.b.com'), allow('*.b.com'))).toEqual({ allow: ['*.b.com'], deny: ['x.b.com'] })
  // Never reached.
  expect(of(allow('*.b.com'), deny('x.b.com'))).toEqual({ allow: ['*.b.com'], deny: [] })
  // Denied anyway.
  expect(of(allow('x.b.com'), deny('*.b.com'))).toEqual({ allow: ['x.b.com'], deny: [] })
  expect(() => of(allow('x.b.com'), deny('*.b.com'), allow('y.b.com'))).toThrow('not supported')
})

it('policies are shown as rules', () => {
  const shown = policyView({
    allow: [{ host: 'a.com' }, { host: 'b.com', ports: [22] }],
    deny: [{ host: 'c.com' }],
    transform: [],
    services: [],
    audit: false,
    limits: {},
  })
  expect(shown).toEqual({ defaultAction: 'deny', egress: [deny('c.com'), allow('a.com'), allow('b.com:22')] })
})
