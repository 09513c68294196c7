import type { Action, Member, Settings } from './spec/rights.ts'

/**
 * Whether the member may do this. Members who manage the guild may do everything. Others need a role or an entry of their own.
 * The right to create includes the right to use.
 */
export function allowed(settings: Settings, member: Member, action: Action): boolean {
  if (member.canManageGuild) return true
  const sufficient: readonly Action[] = action === 'use' ? ['use', 'create'] : [action]
  return sufficient.some((one) => {
    const { users = [], roles = [] } = settings.allowed[one] ?? {}
    return users.includes(member.id) || roles.some((role) => member.roles.includes(role))
  })
}

/** Whether only members who manage the guild may do this, because no role and no user was allowed yet. */
export function isOnlyForManagers(settings: Settings, action: Action): boolean {
  const { users = [], roles = [] } = settings.allowed[action] ?? {}
  return users.length === 0 && roles.length === 0
}
