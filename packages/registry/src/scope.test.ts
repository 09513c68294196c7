import { expect, it } from 'vitest'
import { checkThreadId, scopeColumns } from './scope.ts'

it('turns a scope into columns; the default scope is empty', () => {
  expect(scopeColumns()).toEqual({ app_id: '', guild_id: '', channel_id: null })
  expect(scopeColumns({ appId: 'a', guildId: 'g', channelId: 'c' })).toEqual({
    app_id: 'a',
    guild_id: 'g',
    channel_id: 'c',
  })
})

it.each([
  { appId: 'x'.repeat(201) },
  { guildId: 'ü'.repeat(101) },
  { channelId: 'a\nb' },
  { appId: '\u202e' },
  { appId: '\ud800' },
  { appId: 7 as never },
  { appId: null as never },
  { appID: 'a' } as never,
])('refuses %j', (scope) => {
  expect(() => scopeColumns(scope)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
})

it('checks ids of threads', () => {
  expect(checkThreadId('123')).toBe('123')
  for (const id of ['', 'a\0', 'x'.repeat(201), 5, undefined])
    expect(() => checkThreadId(id)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
})
