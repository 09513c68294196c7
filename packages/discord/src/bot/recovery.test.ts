import { describe, expect, it } from 'vitest'
import { text } from '../testing/scripted-agents.ts'
import { manager, openStage } from '../testing/start-bot.ts'

describe('recovery', () => {
  it('continues an answer after a restart, and reads what was missed, once', async () => {
    const { startBot, channel, agents } = await openStage()
    const bot = await startBot()
    const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
    agents.script = async ({ message, show }) => {
      show([text(`begun: ${message.text}`)])
      if (message.text === 'long') await mayEnd
      show([text(`ended: ${message.text}`)])
    }
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { prompt: 'long' })
    const thread = await channel.waitForThread('long')
    await thread.waitForTranscript('begun: long')
    await bot.close()

    await maria.in(thread).say('missed')
    end()
    await startBot()
    await thread.waitForTranscript(/ended: long\n.*✓/)
    await thread.waitForTranscript(/ended: missed\n.*✓/)
    expect(agents.prompts).toEqual(['long', 'missed'])
    expect(thread.messages.filter(({ content }) => content.includes('ended: '))).toHaveLength(2)
  })

  it('finds a message whose response was lost', async () => {
    const { startBot, channel, twin } = await openStage()
    await startBot()
    twin.faults.requests.loseResponse('POST /channels/:channel/messages')
    await manager(channel).runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await channel.waitForThread('begin')
    await thread.waitForTranscript(/echo: begin\n.*✓/)
    expect(thread.messages.filter(({ content }) => content.includes('echo: begin'))).toHaveLength(1)
    expect(twin.counters.repeatedNonces).toBeGreaterThan(0)
  })

  it('opens the thread that the bot could not open before it ended', async () => {
    const { startBot, channel, twin, agents } = await openStage()
    const bot = await startBot()
    const { id } = await (await manager(channel).runSlashCommand('sandbox-list')).waitForReply()
    expect(id).toBeTruthy()
    // As if the process had ended right after the engine’s row.
    const starter = await manager(channel).say('starter')
    await bot.threads.begin({
      threadId: starter.id,
      channelId: channel.id,
      guildId: channel.guildId,
      title: 'half-open',
      by: { id: '1', name: 'Maria' },
      sandbox: { create: {} },
      message: { id: '1', by: { id: '1', name: 'Maria' }, text: 'half-open' },
    })
    await bot.close()
    await startBot()
    const thread = await channel.waitForThread('half-open')
    await thread.waitForTranscript(/echo: half-open\n.*✓/)
    expect(agents.prompts).toEqual(['half-open'])
    expect(twin.counters.repeatedNonces).toBe(0)
  })

  it('leaves nothing of a thread that is deleted while its sandbox is made', async () => {
    const { startBot, channel, registry } = await openStage()
    const bot = await startBot()
    await manager(channel).runSlashCommand('sandbox', { prompt: 'gone' })
    const thread = await channel.waitForThread('gone')
    thread.delete()
    await expect.poll(async () => (await bot.threads.get(thread.id))?.state ?? 'ended').toBe('ended')
    await expect
      .poll(async () => {
        const records = await registry.in({ appId: bot.appId, guildId: channel.guildId }).list()
        return records.flatMap(({ threads }) => threads)
      })
      .toEqual([])
  })

  it('cancels a sandbox that is being made, by a button', async () => {
    const { startBot, channel, registry, provider } = await openStage()
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
    const create = provider.create.bind(provider)
    provider.create = async (options) => {
      begin()
      await new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, 20_000)
        options?.signal?.addEventListener('abort', () => {
          clearTimeout(timer)
          reject(options.signal!.reason)
        })
      })
      return create(options)
    }
    const bot = await startBot()
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { prompt: 'never mind' })
    await begun
    const thread = await channel.waitForThread('never mind')
    const preparing = await thread.waitForMessage(/preparing/)
    await maria.in(thread).clickButton(preparing, 'Cancel')
    await thread.waitForTranscript(/■ aborted|✗ failed/)
    const scope = { appId: bot.appId, guildId: channel.guildId }
    await expect.poll(async () => (await registry.in(scope).list()).map(({ status }) => status)).toEqual([])
    expect(await provider.list()).toEqual([])
  })

  it('ends the threads of a deleted channel', async () => {
    const { startBot, channel, twin } = await openStage()
    const bot = await startBot()
    const place = twin.guild('Workshop').channel('short-lived')
    await manager(place).runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await place.waitForThread('begin')
    await thread.waitForTranscript('✓')
    place.delete()
    await expect.poll(async () => (await bot.threads.get(thread.id))?.state ?? 'ended').toBe('ended')
    expect(channel.threads).toEqual([])
  })

  it('continues after the bot was kicked and invited again', async () => {
    const { startBot, channel, twin, agents } = await openStage()
    const bot = await startBot()
    const guild = twin.guild('Workshop')
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await channel.waitForThread('begin')
    await thread.waitForTranscript('✓')
    await expect.poll(async () => (await bot.threads.get(thread.id))?.isWorking).toBe(false)
    guild.kick(twin.mainBot)
    await expect.poll(async () => (await bot.threads.get(thread.id))?.state).toBe('archived')
    guild.invite(twin.mainBot)
    await expect.poll(async () => (await bot.threads.get(thread.id))?.state).toBe('ready')
    await maria.in(thread).say('again')
    await thread.waitForTranscript(/echo: again\n.*✓/)
    expect(agents.prompts).toEqual(['begin', 'again'])
  })

  it('goes on after the connection was lost and resumed', async () => {
    const { startBot, channel, twin, agents } = await openStage()
    await startBot()
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await channel.waitForThread('begin')
    await thread.waitForTranscript('✓')
    twin.gateway.drop()
    await maria.in(thread).say('meanwhile')
    await thread.waitForTranscript(/echo: meanwhile\n.*✓/, { timeoutMs: 20_000 })
    expect(agents.prompts).toEqual(['begin', 'meanwhile'])
  })

  it('reads what was missed when the session could not be resumed', async () => {
    const { startBot, channel, twin, agents } = await openStage()
    await startBot()
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await channel.waitForThread('begin')
    await thread.waitForTranscript('✓')
    twin.gateway.setAccepting(false)
    twin.gateway.drop()
    twin.gateway.invalidateSessions()
    await maria.in(thread).say('meanwhile')
    twin.gateway.setAccepting(true)
    await thread.waitForTranscript(/echo: meanwhile\n.*✓/, { timeoutMs: 40_000 })
    expect(agents.prompts).toEqual(['begin', 'meanwhile'])
  })

  it('stops the sandbox when the thread is archived', async () => {
    const { startBot, channel, registry } = await openStage()
    const bot = await startBot()
    await manager(channel).runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await channel.waitForThread('begin')
    await thread.waitForTranscript('✓')
    await expect.poll(async () => (await bot.threads.get(thread.id))?.isWorking).toBe(false)
    thread.archive()
    const scope = { appId: bot.appId, guildId: channel.guildId }
    await expect.poll(async () => (await registry.in(scope).list())[0]!.status).toBe('stopped')
    expect(thread.isArchived).toBe(true)
  })
})

describe('several bots in one server', () => {
  it('answer only in their own threads', async () => {
    const { startBot, channel, twin } = await openStage()
    await startBot()
    const second = twin.bot('second')
    twin.guild('Workshop').invite(second)
    const other = await startBot(second)
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { prompt: 'theirs' }, { bot: second })
    const thread = await channel.waitForThread('theirs')
    await thread.waitForTranscript('✓')
    await maria.in(thread).say('once')
    await thread.waitForTranscript(/echo: once\n.*✓/)
    const authors = thread.messages
      .filter(({ content }) => content.includes('echo: '))
      .map(({ author }) => author)
    expect(authors).toEqual(['second', 'second'])
    expect(await other.threads.list()).toHaveLength(1)
  })
})
