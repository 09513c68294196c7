import { expect, it } from 'vitest'
import { allowed, isOnlyForManagers } from './rights.ts'
import type { Action, Settings } from './spec/rights.ts'

const actions: readonly Action[] = ['use', 'create', 'destroy', 'setup']
const member = (more: object = {}) => ({ id: 'u1', roles: ['dev'], canManageGuild: false, ...more })
const granted = (settings: Settings, who = member()) =>
  actions.filter((action) => allowed(settings, who, action))

it('allows nothing without settings, except to members who manage the guild', () => {
  expect(granted({ allowed: {} })).toEqual([])
  expect(granted({ allowed: {} }, member({ canManageGuild: true }))).toEqual(actions)
  expect(isOnlyForManagers({ allowed: {} }, 'use')).toBe(true)
})

it('allows roles and users exactly what they were given', () => {
  expect(granted({ allowed: { use: { roles: ['dev'], users: [] } } })).toEqual(['use'])
  expect(granted({ allowed: { destroy: { roles: [], users: ['u1'] } } })).toEqual(['destroy'])
  expect(granted({ allowed: { use: { roles: ['other'], users: ['u2'] } } })).toEqual([])
  expect(isOnlyForManagers({ allowed: { use: { roles: ['other'], users: [] } } }, 'use')).toBe(false)
})

it('includes the right to use in the right to create', () => {
  expect(granted({ allowed: { create: { roles: ['dev'], users: [] } } })).toEqual(['use', 'create'])
})
