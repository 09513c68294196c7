import { describe, expect, it } from 'vitest'
import { follow } from '../send/follow.ts'
import { linkOf, openPlace, send } from '../send/send.ts'
import { text, tool } from '../testing/scripted-agents.ts'
import { manager, openStage } from '../testing/start-bot.ts'

/** Names, times and ids that differ between runs. */
const steady = (transcript: string) =>
  transcript
    .replaceAll(/[a-z]+-[a-z]+(?= · local| \()/g, 'NAME')
    .replaceAll(/“[a-z]+-[a-z]+”/g, '“NAME”')
    .replaceAll(/\d+\.\d s$/gm, 'TIME')

describe('flows', () => {
  it('1: a thread on a new sandbox', async () => {
    const { startBot, channel, agents } = await openStage()
    await startBot()
    agents.script = async ({ message, show }) => {
      show([text('I look at it.'), tool('npm test')])
      show([text('I look at it.'), tool('npm test'), { ...text(`Done: ${message.text}`), id: 'end' }])
    }
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { provider: 'local', prompt: 'fix the bug' })
    const thread = await channel.waitForThread('fix the bug')
    await thread.waitForTranscript(/Done: fix the bug\n.*✓/)
    await maria.in(thread).say('and now the docs')
    await thread.waitForTranscript(/Done: and now the docs\n.*✓/)
    expect(agents.prompts).toEqual(['fix the bug', 'and now the docs'])
    expect(thread.members).toContain('Maria')
    expect(steady(thread.transcript())).toMatchInlineSnapshot(`
      "# fix the bug
      sandkasten: **fix the bug**
        -# • Maria · local
      sandkasten: -# • creating “NAME” at local
        -# • starting the agent
        I look at it.
        -# ▪ bash npm test
        Done: fix the bug
        -# ✓ NAME · local · running · vendor/small · $0.01 · TIME
      Maria: and now the docs
      sandkasten: I look at it.
        -# ▪ bash npm test
        Done: and now the docs
        -# ✓ NAME · local · running · vendor/small · $0.01 · TIME"
    `)
  })

  it('2: a thread on an existing sandbox, which is started again', async () => {
    const { startBot, channel, agents, registry, twin } = await openStage()
    const { appId } = await startBot()
    const scope = { appId, guildId: twin.guild('Workshop').id, channelId: channel.id }
    await registry.in(scope).create({ name: 'my-frontend' })
    await registry.in(scope).stop('my-frontend')
    const maria = manager(channel)
    expect(await maria.autocomplete('sandbox', 'sandbox', 'front')).toEqual([
      expect.objectContaining({ name: 'my-frontend (local, stopped)', value: 'my-frontend' }),
    ])
    await maria.runSlashCommand('sandbox', { sandbox: 'my-frontend', prompt: 'add dark mode' })
    const thread = await channel.waitForThread('add dark mode')
    await thread.waitForTranscript(/echo: add dark mode\n.*✓ my-frontend/)
    expect(agents.opened[0]!.hold.record.name).toBe('my-frontend')
    expect((await registry.in(scope).list()).map(({ status }) => status)).toEqual(['running'])
  })

  it('2b: a wrong name suggests, and creates nothing', async () => {
    const { startBot, channel, registry, twin } = await openStage()
    const { appId } = await startBot()
    const scope = { appId, guildId: twin.guild('Workshop').id, channelId: channel.id }
    await registry.in(scope).create({ name: 'my-frontend' })
    const used = await manager(channel).runSlashCommand('sandbox', { sandbox: 'my-fronted', prompt: 'x' })
    expect((await used.waitForReply()).content).toMatch(/my-fronted[\s\S]*my-frontend/)
    expect(channel.threads).toEqual([])
    expect(await registry.in(scope).list()).toHaveLength(1)
  })

  it('3 and 4: requests of `sandkasten send`', async () => {
    const { startBot, channel, twin, agents, alive } = await openStage()
    const place = await openPlace(twin.token, channel.id, { api: twin.api })
    const marker = { id: 'one-request', by: 'ci', create: { name: 'from-ci', provider: 'local' } }
    // The bot does not run yet: it finds the request when it starts.
    const sent = await send(place, {
      prompt: 'set up **CI**',
      marker,
      files: [{ name: 'a.txt', bytes: Buffer.from('hi') }],
    })
    expect(linkOf(sent)).toBe(`https://discord.com/channels/${place.guildId}/${sent.messageId}`)
    expect((await send(place, { prompt: 'set up **CI**', marker })).messageId).toBe(sent.messageId)
    alive.time = Date.now() - 1000
    await startBot()
    expect(await follow(sent, { everyMs: 20 })).toEqual({ end: 'done', text: 'echo: set up **CI**' })
    expect(agents.sessions.values().next().value!.history[0]!.files).toEqual([
      expect.stringMatching(/a\.txt$/),
    ])

    const thread = await channel.waitForThread(/CI/)
    const again = await openPlace(twin.token, thread.id, { api: twin.api })
    const more = await send(again, { prompt: 'run tests', marker: { id: 'two', by: 'ci' } })
    expect(await follow(more, { everyMs: 20 })).toEqual({ end: 'done', text: 'echo: run tests' })

    const wrong = await send(place, { prompt: 'x', marker: { id: 'three', by: 'ci', sandbox: 'from-cy' } })
    const refused = await follow(wrong, { everyMs: 20 })
    expect(refused).toMatchObject({ end: 'failed', text: expect.stringContaining('from-ci') })

    const long = 'y'.repeat(5000)
    const file = await send(place, { prompt: long, marker: { id: 'four', by: 'ci', sandbox: 'from-ci' } })
    expect((await follow(file, { everyMs: 20 })).end).toBe('done')
    expect(agents.prompts.at(-1)).toBe(long)
  })

  it('3b: only a message of the bot itself is a request', async () => {
    const { startBot, channel, twin, agents } = await openStage()
    await startBot()
    const other = twin.bot('another bot')
    twin.guild('Workshop').invite(other)
    const place = await openPlace(other.token, channel.id, { api: twin.api })
    await send(place, { prompt: 'x', marker: { id: 'one', by: 'evil', create: {} } })
    await manager(channel).say('sandkasten 1 {"id":"x","by":"evil","create":{}}')
    await manager(channel).runSlashCommand('sandbox', { prompt: 'after' })
    await channel.waitForThread('after')
    expect(channel.threads).toHaveLength(1)
    expect(agents.prompts).not.toContain('x')
    await expect(
      follow(await send(place, { prompt: 'y', marker: { id: 'two', by: 'ci', create: {} } }), {
        everyMs: 20,
        reactWithinMs: 200,
      }),
    ).rejects.toMatchObject({ code: 'timeout' })
  })

  it('5: the lifecycle of a sandbox', async () => {
    const { startBot, channel, registry, twin } = await openStage()
    const { appId } = await startBot()
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await channel.waitForThread('begin')
    await thread.waitForTranscript(/echo: begin\n.*✓/)
    const scope = { appId, guildId: twin.guild('Workshop').id }
    const { name } = (await registry.in(scope).list())[0]!

    // The agent lets go of the sandbox a moment after its answer.
    await expect.poll(async () => (await registry.in(scope).get(name)).uses).toEqual([])
    const run = async (command: string, options = {}, where = thread) => {
      const used = await maria.in(where).runSlashCommand(command, options)
      return (await used.waitForReply()).content
    }
    expect(await run('sandbox-list', {}, channel)).toMatch(
      new RegExp(`NAME[\\s\\S]*${name} +local +running +now +1`),
    )
    expect(await run('sandbox-stop')).toContain(`${name} is stopped`)
    expect(await run('sandbox-start')).toContain(`${name} is running`)
    expect(await run('shell', { command: 'echo hello; exit 3' })).toMatch(/exit code 3\n```\nhello\n```/)
    expect(await run('url', { port: 3000 })).toBeTruthy()
    expect(await run('abort')).toContain('Nothing was at work')
    expect(await run('model', { model: 'vendor/small' })).toContain('vendor/small')

    const used = await maria.in(thread).runSlashCommand('sandbox-destroy')
    const question = await used.waitForReply()
    expect(question.content).toContain(`<#${thread.id}>`)
    await maria.in(thread).clickButton(question, 'Destroy')
    await thread.waitUntil(({ isArchived }) => isArchived)
    expect(await registry.in(scope).list()).toEqual([])
    expect(await run('sandbox-list', {}, channel)).toContain('no sandboxes')
  })
})
