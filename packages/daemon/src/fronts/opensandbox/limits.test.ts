import { expect, it } from 'vitest'
import { limitsOf } from './limits.ts'

it('limits are read as Kubernetes writes them', () => {
  expect(limitsOf({ cpu: '1500m', memory: '2Gi', disk: '1G' })).toEqual({
    cpu: 1.5,
    memoryMb: 2048,
    diskMb: 954,
  })
  for (const cpu of ['', '-1', '0', '1 core', '1e9'])
    expect(() => limitsOf({ cpu })).toThrow('not a quantity')
  expect(() => limitsOf({ gpu: '1' })).toThrow('not supported')
})
