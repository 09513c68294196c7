import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Bot, createBot } from '@sandkasten/discord'
import { startTwin, type Twin, type TwinChannel, type TwinUser } from '@sandkasten/discord/testing'
import { openRegistry, type Registry, type ScopedRegistry } from '@sandkasten/registry'
import type { ProviderKind } from '@sandkasten/sdk/auto'
import {
  type AgentsOptions,
  agentOpener,
  openAgents,
  openBridge,
  openThreads,
  type SandboxOptions,
  servicesHome,
  type ThreadServices,
} from '@sandkasten/threads'

/** How long an answer may take on a busy machine. */
export const patience = { timeoutMs: 120_000 }

export interface StageOptions {
  readonly kinds: readonly ProviderKind[]
  /** Where the engine of these kinds is, too. */
  readonly dataDir: string
  readonly defaultProvider?: string
  readonly agents: Omit<AgentsOptions, 'homeFolder'>
  readonly sandboxDefaults?: SandboxOptions
}

/** The bot as `sandkasten discord` runs it, on the twin of Discord, in a data folder of its own. */
export interface Stage extends AsyncDisposable {
  readonly twin: Twin
  readonly channel: TwinChannel
  /** The member who manages the server. */
  readonly maria: TwinUser
  readonly registry: Registry
  readonly bot: Bot
  readonly log: string[]
  /** The sandboxes of the bot in the server. */
  readonly sandboxes: ScopedRegistry
  /** Uses a command, and returns its reply. */
  run(where: TwinChannel, command: string, options?: Record<string, string | number>): Promise<string>
  /** Waits for so many answers that have ended, and returns the thread without what differs between runs. */
  answered(thread: TwinChannel, count: number): Promise<string>
  /** A text without what differs between runs. Sandboxes are `SANDBOX-1`, `SANDBOX-2` and so on. */
  steady(text: string): Promise<string>
}

export async function openStage(options: StageOptions): Promise<Stage> {
  const { kinds, dataDir, defaultProvider, agents: given, sandboxDefaults } = options
  await using stack = new AsyncDisposableStack()
  const twin = await startTwin()
  stack.defer(() => twin.close())
  const registry = await openRegistry({
    dataDir,
    kinds,
    env: {},
    ...(defaultProvider && { defaultProvider }),
  })
  stack.defer(() => registry.close())
  const log: string[] = []
  const services = new Map<string, ThreadServices>()
  const onProblem = (_: string, message: string) => void log.push(message)
  const bridge = stack.use(await openBridge({ home: servicesHome(services), onProblem }))
  const homeFolder = path.join(dataDir, 'threads', 'discord', 'home')
  const agents = stack.use(openAgents({ bridge, onProblem, homeFolder, ...given }))
  const alive = path.join(dataDir, 'discord', 'alive')
  await mkdir(path.dirname(alive))
  const bot = await createBot({
    token: twin.token,
    registry,
    kinds,
    api: twin.api,
    alive: {
      read: async () => Number(await readFile(alive, 'utf8').catch(() => '')) || undefined,
      write: (time) => writeFile(alive, String(time)),
    },
    onLog: ({ text }) => log.push(text),
    open: ({ chat, appId }) =>
      openThreads({
        ...{
          appId,
          chat,
          registry,
          agents: agentOpener(agents, services),
          dataDir,
          env: {},
          sandboxDefaults,
        },
        onError: (error) => log.push(String(error)),
      }),
  })
  const channel = twin.guild('Workshop').channel('general')
  const sandboxes = registry.in({ appId: bot.appId, guildId: channel.guildId })
  stack.defer(async () => {
    for (const { name } of await sandboxes.list()) await sandboxes.destroy(name, { force: true })
  })
  stack.defer(() => bot.close())
  await bot.start()
  const maria = manager(channel)
  const names: string[] = []
  const withNames = async (text: string) => {
    const all = await sandboxes.list()
    for (const { name } of all.toSorted((a, b) => a.createdAt.getTime() - b.createdAt.getTime()))
      if (!names.includes(name)) names.push(name)
    return steady(names.reduce((rest, name, at) => rest.replaceAll(name, `SANDBOX-${at + 1}`), text))
  }
  const owned = stack.move()
  return {
    ...{ twin, channel, maria, registry, sandboxes, bot, log },
    steady: withNames,
    run: async (where, command, options) => withNames(await run(maria.in(where), command, options)),
    async answered(thread, count) {
      await ended(thread, count)
      return withNames(thread.transcript())
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** A data folder, removed with its contents. */
export async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sk-flows-'))
  const remove = () => rm(folder, { recursive: true, force: true, maxRetries: 5 })
  return { path: folder, [Symbol.asyncDispose]: remove }
}

export function manager(channel: TwinChannel): TwinUser {
  return channel.user('Maria', { permissions: ['ManageGuild', 'SendMessages', 'ViewChannel'] })
}

/** Uses a command, and returns its reply. */
export async function run(
  user: TwinUser,
  command: string,
  options: Record<string, string | number> = {},
): Promise<string> {
  const used = await user.runSlashCommand(command, options)
  const reply = await used.waitForReply(patience)
  return String(reply)
}

/** Waits for so many answers that have ended. */
export async function ended(thread: TwinChannel, count: number): Promise<void> {
  const ends = () =>
    thread.messages.filter(({ content, isEphemeral }) => !isEphemeral && /(^|\n)-# [✓✗■] .*$/.test(content))
  await thread.waitForMessage(() => ends().length >= count, patience)
}

/** Without times, costs and the ids of Discord. */
export function steady(transcript: string): string {
  return transcript
    .replaceAll(/(?<=^ *(?:\w+: )?-# [✓✗■] .*?)( · \$[\d.]+)? · [\d.]+ (s|min)$/gm, ' · COST · TIME')
    .replaceAll(/(?<=^ *-# [▪✕] .*) · [\d.]+ (s|min)$/gm, '')
    .replaceAll(/\b\d{17,20}\b/g, 'ID')
    .replaceAll(/(?<=^ *(NAME|SANDBOX-\d)?.*\S) {2,}(?=\S)/gm, '  ')
}
