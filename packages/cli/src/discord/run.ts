import { userInfo } from 'node:os'
import path from 'node:path'
import type { Bot, LogEntry } from '@sandkasten/discord'
import { registryPlace } from '../registry-place.ts'
import { type AgentChoice, agentsHere } from '../sandbox/chat/agents.ts'
import { kindsHere, openHere } from '../sandbox/open.ts'
import { endings } from '../steer.ts'
import { aliveIn } from './alive.ts'
import { tokenHere } from './token.ts'

/** `sandkasten discord unit`. */
export async function printUnit(options: readonly string[]): Promise<number> {
  const { systemdUnit } = await import('@sandkasten/discord')
  const command = [process.execPath, path.resolve(process.argv[1]!), 'discord', ...options]
  process.stdout.write(systemdUnit({ command, user: userInfo().username }))
  return 0
}

/** `sandkasten discord`: runs the bot until a signal. Another start continues where this one ended. */
export async function run(options: AgentChoice): Promise<number> {
  const token = await tokenHere()
  const { data } = await registryPlace()
  const { createBot } = await import('@sandkasten/discord')
  const { openThreads } = await import('@sandkasten/threads')
  await using opened = await openHere()
  const { registry } = opened
  const onProblem = (threadId: string, message: string) =>
    log({ level: 'warning', text: `thread ${threadId}: ${message}` })
  await using agents = await agentsHere(path.join(data, 'threads', 'discord'), { ...options, onProblem })
  const folder = path.join(data, 'discord')
  await using bot: Bot = await createBot({
    token,
    registry,
    kinds: await kindsHere(),
    api: process.env.SANDKASTEN_DISCORD_API,
    open: ({ chat, appId }) =>
      openThreads({
        ...agents.options,
        ...{ appId, chat, registry, dataDir: data },
        onError: (error) =>
          log({ level: 'error', text: error instanceof Error ? error.message : String(error) }),
      }),
    alive: aliveIn(folder),
    onLog: log,
  })
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  for (const signal of endings) process.on(signal, end)
  try {
    await bot.start()
    await ended
    log({ level: 'info', text: 'ending; unfinished answers go on after the next start' })
  } finally {
    for (const signal of endings) process.off(signal, end)
  }
  return 0
}

/** Lines for people and for journald, which adds the time itself. */
function log({ level, text }: LogEntry): void {
  const time = process.env.JOURNAL_STREAM ? '' : `${new Date().toISOString()} `
  console.log(`${time}${level === 'info' ? '' : `${level}: `}${text.replace(/\s+/g, ' ')}`)
}
