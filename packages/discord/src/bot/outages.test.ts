import { SandboxError } from '@sandkasten/sdk'
import { describe, expect, it } from 'vitest'
import { text } from '../testing/scripted-agents.ts'
import { manager, openStage, type Stage } from '../testing/start-bot.ts'

const always = { times: Number.POSITIVE_INFINITY }
const sending = 'POST /channels/:channel/messages'
const editing = 'PATCH /channels/:channel/messages/:message'

/** The next sandbox is made when `release` is called, or fails with an error. */
function holdCreate({ provider }: Stage, failure?: SandboxError) {
  const create = provider.create.bind(provider)
  const { promise: gate, resolve: release } = Promise.withResolvers<void>()
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  provider.create = async (given) => {
    begin()
    if (failure) throw failure
    await gate
    return create(given)
  }
  return {
    begun,
    release() {
      provider.create = create
      release()
    },
  }
}

/** An answer in many states. */
function streamed(stage: Stage, states: number, everyMs: number): string[] {
  const words = Array.from({ length: states * 10 }, (_, at) => `word${at}`)
  stage.agents.script = async ({ show }) => {
    for (let state = 1; state <= states; state += 1) {
      show([text(words.slice(0, state * 10).join(' '))])
      await new Promise((resolve) => setTimeout(resolve, everyMs))
    }
  }
  return words
}

function wordsIn(messages: ReadonlyArray<{ content: string }>): string[] {
  return messages.flatMap(({ content }) => content.match(/word\d+/g) ?? [])
}

/** A thread whose requests are used up waits for up to five seconds. */
const patience = { timeoutMs: 20_000 }

describe('Discord', () => {
  it('that is slow gets complete answers', async () => {
    const stage = await openStage()
    const words = streamed(stage, 60, 50)
    await stage.startBot()
    for (const route of [sending, editing]) stage.twin.faults.requests.delay(route, 2000, always)
    await manager(stage.channel).runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await stage.channel.waitForThread('begin')
    await thread.waitForTranscript('✓', { timeoutMs: 40_000 })
    expect(wordsIn(thread.messages)).toEqual(words)
    expect(stage.twin.counters.longestRateLimitedRun).toBeLessThan(2)
  })

  it('that fails for a while gets complete answers, once', async () => {
    const stage = await openStage()
    const words = streamed(stage, 40, 50)
    await stage.startBot()
    const { requests } = stage.twin.faults
    const maria = manager(stage.channel)
    await maria.runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await stage.channel.waitForThread('begin')
    await thread.waitForTranscript('word9')
    for (const route of [sending, editing, 'GET /channels/:channel/messages/:message'])
      requests.fail(route, { ...always, status: 502 })
    await maria.in(thread).say('meanwhile')
    // Longer than the answer takes.
    await expect.poll(() => stage.agents.prompts).toEqual(['begin'])
    await new Promise((resolve) => setTimeout(resolve, 4000))
    expect(thread.transcript()).not.toContain('✓')
    requests.clear()
    await thread.waitForTranscript(/✓[\s\S]*✓/, { timeoutMs: 40_000 })
    expect(wordsIn(thread.messages)).toEqual([...words, ...words])
    expect(stage.agents.prompts).toEqual(['begin', 'meanwhile'])
  })

  it('that fails while the bot starts does not make it forget messages', async () => {
    const { startBot, channel, twin, agents } = await openStage()
    const bot = await startBot()
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await channel.waitForThread('begin')
    await thread.waitForTranscript('✓')
    await bot.close()
    await maria.in(thread).say('missed')
    twin.faults.requests.fail('GET /channels/:channel/messages', { times: 9, status: 503 })
    await startBot()
    await thread.waitForTranscript('echo: missed')
    expect(agents.prompts).toEqual(['begin', 'missed'])
  })

  it('that delivers everything twice, or late, gets one answer', async () => {
    const { startBot, channel, twin, agents } = await openStage()
    await startBot()
    twin.faults.events.duplicate()
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await channel.waitForThread('begin')
    await maria.in(thread).say('two')
    await thread.waitForTranscript(/echo: two\n.*✓/, patience)
    twin.faults.events.clear()
    const held = twin.faults.events.hold({ name: 'MESSAGE_CREATE' })
    await maria.in(thread).say('three')
    await maria.in(thread).say('four')
    held.release({ isReversed: true })
    await thread.waitForTranscript(/echo: three\n.*✓/, patience)
    await thread.waitForTranscript(/echo: four\n.*✓/, patience)
    expect([...agents.prompts].sort()).toEqual(['begin', 'four', 'three', 'two'])
    const answers = thread.messages.filter(({ content }) => content.includes('echo: '))
    expect(answers).toHaveLength(4)
  })

  it('that delivers a message after its thread was deleted gets no answer', async () => {
    const { startBot, channel, twin, agents, log } = await openStage()
    const bot = await startBot()
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await channel.waitForThread('begin')
    await thread.waitForTranscript('✓')
    const held = twin.faults.events.hold({ name: 'MESSAGE_CREATE' })
    await maria.in(thread).say('late')
    thread.delete()
    await expect.poll(async () => (await bot.threads.get(thread.id))?.state).toBe('ended')
    held.release()
    await maria.runSlashCommand('sandbox', { prompt: 'next' })
    await (await channel.waitForThread('next')).waitForTranscript('✓')
    expect(agents.prompts).toEqual(['begin', 'next'])
    expect(log.filter(({ level }) => level === 'error')).toEqual([])
  })
})

describe('while a sandbox is made', () => {
  it('a deleted thread or channel leaves no sandbox', async () => {
    const stage = await openStage()
    const { startBot, twin, registry, provider } = stage
    const bot = await startBot()
    for (const what of ['thread', 'channel'] as const) {
      const channel = twin.guild('Workshop').channel(what)
      const { begun, release } = holdCreate(stage)
      await manager(channel).runSlashCommand('sandbox', { prompt: what })
      const thread = await channel.waitForThread(what)
      await begun
      if (what === 'thread') thread.delete()
      else channel.delete()
      await expect.poll(async () => (await bot.threads.get(thread.id))?.state).toBe('ended')
      release()
      await expect.poll(() => provider.list()).toEqual([])
      const scope = { appId: bot.appId, guildId: channel.guildId }
      await expect.poll(async () => (await registry.in(scope).list()).length).toBe(0)
    }
  })

  it('a bot that is kicked and invited again answers', async () => {
    const stage = await openStage()
    const { startBot, channel, twin, agents } = stage
    await startBot()
    const { begun, release } = holdCreate(stage)
    await manager(channel).runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await channel.waitForThread('begin')
    await begun
    twin.guild('Workshop').kick(twin.mainBot)
    release()
    await expect.poll(() => agents.prompts).toEqual(['begin'])
    twin.guild('Workshop').invite(twin.mainBot)
    await thread.waitForTranscript(/echo: begin\n.*✓/, patience)
    expect(agents.prompts).toEqual(['begin'])
  })

  it('a provider that is down is named, and the next message tries again', async () => {
    const stage = await openStage()
    const { startBot, channel, provider, agents } = stage
    await startBot()
    const down = new SandboxError('unavailable', 'The provider @everyone does not answer.')
    const { release } = holdCreate(stage, down)
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await channel.waitForThread('begin')
    await thread.waitForTranscript(/does not answer\.[\s\S]*✗ failed/, { timeoutMs: 30_000 })
    const words = thread.messages.filter(({ content }) => content !== '')
    expect(words.flatMap(({ pings }) => pings)).toEqual([])
    await maria.in(thread).say('still down?')
    await thread.waitForTranscript(/✗ failed[\s\S]*✗ failed/, { timeoutMs: 30_000 })
    release()
    await maria.in(thread).say('and now?')
    await thread.waitForTranscript(/echo: and now\?\n.*✓/, patience)
    expect(agents.prompts).toEqual(['and now?'])
    expect(await provider.list()).toHaveLength(1)
  })
})

it('a command whose process ended after its acknowledgement gets a clear error', async () => {
  const { startBot, channel, registry } = await openStage()
  const bot = await startBot()
  // As if the process had ended here.
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  bot.threads.begin = async () => {
    begin()
    return await new Promise<never>(() => {})
  }
  const used = await manager(channel).runSlashCommand('sandbox', { prompt: 'lost' })
  await begun
  expect(used.reply!.isThinking).toBe(true)
  await bot.close()
  await startBot()
  const told = await channel.waitForMessage(/The bot was restarted before it could do this/)
  expect(told.replyTo).toBe(used.reply!.id)
  expect(channel.threads).toEqual([])
  expect(await registry.in({ appId: bot.appId, guildId: channel.guildId }).list()).toEqual([])
})
