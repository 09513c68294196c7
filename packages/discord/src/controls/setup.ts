import { said } from '../commands/reply.ts'
import { fieldsOf, kindOf } from '../commands/sandbox-setup.ts'
import { plain } from '../show/escape.ts'
import type { Control } from './control.ts'

/**
 * The form of `/sandbox-setup`. Its values go to the registry, which checks and encrypts them, and removes them from
 * errors.
 */
export const setup: Control = {
  name: 'setup',
  right: 'setup',
  reply: 'private',
  target: ({ argument }) => argument,
  async run(call, { kinds, registry, appId }) {
    const kind = kindOf(call.argument, kinds)
    const settings = Object.fromEntries(
      call.fields.flatMap((id) => {
        const value = call.field(id)?.trim()
        return value ? [[id, value] as const] : []
      }),
    )
    // The credentials belong to the bot: all of its servers use them.
    const done = await registry.credentials.setup(kind.provider, settings, { scope: { appId } })
    const { others } = fieldsOf(kind)
    const more =
      others.length > 0
        ? `\n-# The form has no room for ${others.join(', ')}. Set them with: sandkasten sandbox setup ${kind.provider}`
        : ''
    return said(
      `-# • ${plain(kind.title, 60)} is set up${done.isDefault ? ', and is the default' : ''}.${more}`,
    )
  },
}
