import { print } from '../table.ts'
import { newToken, removeBot, storeBot } from './token.ts'

export interface SetupOptions {
  store: boolean
  remove?: boolean
  json?: boolean
}

/** `sandkasten discord setup`. The token is checked before it is stored. */
export async function setup({ store, remove, json = false }: SetupOptions): Promise<number> {
  if (remove) {
    const removed = await removeBot()
    print(json, { removed }, () => (removed ? 'The token is removed.' : 'No token was stored.'))
    return 0
  }
  const { permissions, setUpBot } = await import('@sandkasten/discord')
  const token = await newToken({ json })
  const { appId, name, invite, canReadMessages, commandsChanged, ...checked } = await setUpBot(token, {
    api: process.env.SANDKASTEN_DISCORD_API,
  })
  const file = store ? await storeBot({ token: checked.token, appId, name }) : undefined
  const intents = ['Message Content']
  const result = {
    appId,
    name,
    invite,
    permissions: Object.keys(permissions),
    intents,
    canReadMessages,
    file,
  }
  print(json, result, () =>
    [
      `The token is valid: it belongs to ${name}.`,
      ...(file ? [`It is stored in ${file}.`] : []),
      commandsChanged ? 'The commands are registered.' : 'The commands were registered already.',
      ...(canReadMessages === false
        ? ['Switch on “Message Content Intent” in the developer portal, under Bot. The bot needs it.']
        : []),
      '',
      'Invite the bot with this link:',
      `  ${invite}`,
      `It asks for: ${Object.keys(permissions).join(', ')}.`,
      '',
      'Run the bot with: sandkasten discord',
    ].join('\n'),
  )
  return 0
}
