import { expect, it } from 'vitest'
import { policyOf } from './network.ts'
import { networkPolicy } from './schemas.ts'

it('policies map to a network or none, or are refused', () => {
  const policy = (given: object) => networkPolicy.parse(given)
  expect(policyOf(undefined)).toBeUndefined()
  expect(policyOf(policy({}))).toBe('deny-all')
  expect(policyOf(policy({ defaultAction: 'allow' }))).toBe('allow-all')
  expect(policyOf({ defaultAction: 'deny', egress: [{ action: 'deny', target: 'x' }] })).toBe('deny-all')
  expect(() => policyOf(policy({ egress: [{ action: 'allow', target: 'x' }] }))).toThrow('not supported')
})
