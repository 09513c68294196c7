import { DiscordError } from '../../errors.ts'
import { applicationPayload, userPayload } from '../../state/payloads.ts'
import type { CommandRecord } from '../../state/world.ts'
import { commandPayload, parseCommand, parseCommands } from '../command-form.ts'
import { type BotCall, type Result, type Route, route } from '../route.ts'

export const applicationRoutes: Route[] = [
  route('GET /gateway/bot', ({ core }) => ({
    url: core.origin.replace('http', 'ws'),
    shards: 1,
    session_start_limit: {
      total: 1000,
      remaining: 1000,
      reset_after: 86_400_000,
      max_concurrency: 1,
    },
  })),
  route('GET /users/@me', ({ core, bot }) => ({
    ...userPayload(core.world.users.get(bot.id)!),
    verified: true,
    email: null,
    mfa_enabled: true,
  })),
  route('GET /users/@me/guilds', ({ core, bot }) =>
    [...core.world.guilds.values()]
      .filter(({ members }) => members.has(bot.id))
      .map(({ id, name }) => ({ id, name, icon: null, owner: false, permissions: '0', features: [] })),
  ),
  route('GET /users/:user', ({ core, params }) => {
    const user = core.world.users.get(params.user!)
    if (!user) throw new DiscordError('unknownUser')
    return userPayload(user)
  }),
  route('GET /applications/@me', ({ core, bot }) => applicationPayload(core.world, bot)),
  route('GET /oauth2/applications/@me', ({ core, bot }) => applicationPayload(core.world, bot)),
  ...commandRoutes('/applications/:application/commands'),
  ...commandRoutes('/applications/:application/guilds/:guild/commands'),
]

/** Commands of an application: global ones, or those of one guild. */
function commandRoutes(path: string): Route[] {
  return [
    route(`GET ${path}`, (call) => commandsOf(call).map((command) => payload(call, command))),
    route(`PUT ${path}`, (call) => {
      const bodies = parseCommands(call.body)
      const previous = commandsOf(call)
      const commands = bodies.map((body): CommandRecord => {
        const same = previous.find(
          (command) => command.body.name === body.name && command.body.type === body.type,
        )
        return { id: same?.id ?? call.core.newId(), version: call.core.newId(), body }
      })
      return setCommands(call, commands).map((command) => payload(call, command))
    }),
    route(`POST ${path}`, (call) => {
      const body = parseCommand(call.body)
      const others = commandsOf(call).filter((command) => command.body.name !== body.name)
      const command = { id: call.core.newId(), version: call.core.newId(), body }
      setCommands(call, [...others, command])
      return payload(call, command)
    }),
    route(`GET ${path}/:command`, (call) => payload(call, commandOf(call))),
    route(`PATCH ${path}/:command`, (call) => {
      const command = commandOf(call)
      const body = parseCommand({ ...command.body, ...call.body })
      const changed = { id: command.id, version: call.core.newId(), body }
      setCommands(
        call,
        commandsOf(call).map((other) => (other === command ? changed : other)),
      )
      return payload(call, changed)
    }),
    route(`DELETE ${path}/:command`, (call): Result => {
      const command = commandOf(call)
      setCommands(
        call,
        commandsOf(call).filter((other) => other !== command),
      )
      return undefined
    }),
  ]
}

function commandsOf({ core, bot, params }: BotCall): CommandRecord[] {
  if (params.application !== bot.id) throw new DiscordError('missingAccess')
  if (params.guild !== undefined && !core.world.guilds.get(params.guild)?.members.has(bot.id)) {
    throw new DiscordError('missingAccess')
  }
  return bot.commands.get(params.guild ?? '') ?? []
}

function setCommands({ core, bot, params }: BotCall, commands: CommandRecord[]): CommandRecord[] {
  bot.commands.set(params.guild ?? '', commands)
  core.changes.emit('change')
  return commands
}

function commandOf(call: BotCall): CommandRecord {
  const command = commandsOf(call).find(({ id }) => id === call.params.command)
  if (!command) throw new DiscordError('unknownCommand')
  return command
}

function payload({ bot, params }: BotCall, command: CommandRecord): object {
  return commandPayload(command, bot.id, params.guild)
}
