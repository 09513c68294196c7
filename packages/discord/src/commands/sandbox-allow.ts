import { SandboxError } from '@sandkasten/sdk'
import type { Action, Allowed, Settings } from '@sandkasten/threads'
import { type Command, option } from './command.ts'
import { said } from './reply.ts'

const actions: readonly Action[] = ['use', 'create', 'destroy', 'setup']

/** Rights in this server. Members who manage the server have all of them. */
export const sandboxAllow: Command = {
  definition: {
    name: 'sandbox-allow',
    description: 'Show who may use sandboxes here, or allow a role or a user.',
    options: [
      option('action', 'What to allow; default: show what is allowed', {
        choices: actions.map((value) => ({ name: value, value })),
        max_length: undefined,
      }),
      option('role', 'This role', { type: 8 }),
      option('user', 'This user', { type: 6 }),
      option('remove', 'Take the right away again', { type: 5 }),
    ],
  },
  right: 'setup',
  reply: 'private',
  target: (call) => `${call.text('action') ?? 'show'} ${call.text('role') ?? call.text('user') ?? ''}`.trim(),
  async run(call, { threads }) {
    const place = { guildId: call.guildId }
    const settings = await threads.settings(place)
    const [action, role, user] = [
      call.text('action') as Action | undefined,
      call.text('role'),
      call.text('user'),
    ]
    if (action === undefined && role === undefined && user === undefined) return said(listOf(settings))
    if (action === undefined || (role === undefined) === (user === undefined))
      throw new SandboxError('invalid_argument', 'This needs an action, and one role or one user.', {
        hint: 'For example: /sandbox-allow action:use role:@developers.',
      })
    const before = settings.allowed[action] ?? { roles: [], users: [] }
    const isRemoved = call.flag('remove') === true
    const after: Allowed = {
      roles: role === undefined ? before.roles : changed(before.roles, role, isRemoved),
      users: user === undefined ? before.users : changed(before.users, user, isRemoved),
    }
    const next = { ...settings, allowed: { ...settings.allowed, [action]: after } }
    await threads.saveSettings(place, next, call.by)
    return said(listOf(next))
  },
}

function changed(ids: readonly string[], id: string, isRemoved: boolean): readonly string[] {
  const others = ids.filter((one) => one !== id)
  return isRemoved ? others : [...others, id]
}

function listOf({ allowed }: Settings): string {
  const lines = actions.map((action) => {
    const { roles = [], users = [] } = allowed[action] ?? {}
    const who = [...roles.map((id) => `<@&${id}>`), ...users.map((id) => `<@${id}>`)]
    return `- **${action}**: ${who.slice(0, 20).join(' ') || 'only members who manage the server'}`
  })
  return lines.join('\n')
}
