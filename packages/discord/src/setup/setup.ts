import { registerCommands } from '../bot/register.ts'
import { restOf } from '../rest/rest.ts'
import { checkToken, type Identity, identityOf } from './identity.ts'
import { inviteLink } from './invite.ts'

export interface CheckedBot extends Identity {
  readonly token: string
  readonly invite: string
  /** False: Discord had these commands already. */
  readonly commandsChanged: boolean
}

/** Checks the token with Discord, and registers the commands. */
export async function setUpBot(token: string, { api }: { api?: string } = {}): Promise<CheckedBot> {
  const checked = checkToken(token)
  const rest = restOf(checked, api)
  const identity = await identityOf(rest)
  const commandsChanged = await registerCommands(rest, identity.appId)
  return { ...identity, token: checked, invite: inviteLink(identity.appId), commandsChanged }
}
