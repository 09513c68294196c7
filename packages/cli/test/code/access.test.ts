import { expect, it } from 'vitest'
import { accessesOf } from '../../src/sandbox/code/access.ts'
import { modelOf } from '../../src/sandbox/code/model.ts'

const model = modelOf({ agent: 'opencode', model: 'anthropic/claude-sonnet-4-5', credentials: [] })

it.each([
  [{ audit: true }, { audit: true }],
  [{ deny: ['evil.example'] }, { deny: ['evil.example'] }],
  [{ allow: ['github.com'] }, { allow: expect.arrayContaining(['github.com']) }],
])('every way to reach the model has %j', (asked, expected) => {
  const ways = accessesOf({ model, credentials: [], ...asked })
  expect(ways.length).toBeGreaterThan(0)
  for (const { network } of ways) expect(network).toMatchObject(expected)
})

it('the last way is the network of the provider, if nothing was asked for', () => {
  expect(accessesOf({ model, credentials: [] }).at(-1)?.network).toBeUndefined()
})
