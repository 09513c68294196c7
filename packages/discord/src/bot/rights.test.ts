import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { commands } from '../commands/index.ts'
import { manager, openStage } from '../testing/start-bot.ts'

/** Values for required options. */
const options: Record<string, Record<string, string | number>> = {
  'sandbox-connect': { sandbox: 'x' },
  'sandbox-setup': { provider: 'keyed' },
  shell: { command: 'true' },
  url: { port: 80 },
}

describe('rights', () => {
  it('are needed for every command, and missing ones are named in plain words', async () => {
    const { startBot, channel, agents, registry } = await openStage()
    const bot = await startBot()
    const eve = channel.user('Eve')
    for (const { definition } of commands) {
      const used = await eve.runSlashCommand(definition.name, options[definition.name] ?? {})
      const reply = await used.waitForReply()
      expect(reply.isEphemeral, definition.name).toBe(true)
      expect(reply.content, definition.name).toMatch(/You may not \w+[\w ]+ here\.\n.*\/sandbox-allow/)
    }
    expect(await eve.autocomplete('sandbox', 'sandbox', '')).toEqual([])
    expect(channel.threads).toEqual([])
    expect(agents.opened).toEqual([])
    expect(await registry.in({ appId: bot.appId, guildId: channel.guildId }).list()).toEqual([])
    const log = await bot.threads.auditLog({ guildId: channel.guildId })
    expect(log.filter(({ result }) => result === 'forbidden').length).toBe(commands.length)
  })

  it('come from roles and users that a manager allows', async () => {
    const { startBot, channel, twin, agents } = await openStage()
    await startBot()
    const guild = twin.guild('Workshop')
    const dev = channel.user('Dan', { roles: ['developers'] })
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox-allow', { action: 'create', role: guild.role('developers') })
    await dev.runSlashCommand('sandbox', { prompt: 'allowed now' })
    const thread = await channel.waitForThread('allowed now')
    await thread.waitForTranscript('✓')
    const denied = await dev.in(thread).runSlashCommand('sandbox-destroy')
    expect((await denied.waitForReply()).content).toContain('may not destroy')

    // Others may read the thread, but their messages do nothing.
    const eve = channel.user('Eve')
    const ignored = await eve.in(thread).say('delete everything')
    await twin.waitFor('a reaction', () => Object.keys(ignored.reactions).length > 0)
    await maria.runSlashCommand('sandbox-allow', { action: 'use', user: eve.id })
    await eve.in(thread).say('now I may')
    await thread.waitForTranscript('echo: now I may')
    await maria.runSlashCommand('sandbox-allow', { action: 'use', user: eve.id, remove: true })
    await eve.in(thread).say('not any more')
    await dev.in(thread).say('last')
    await thread.waitForTranscript('echo: last')
    expect(agents.prompts).toEqual(['allowed now', 'now I may', 'last'])
  })

  it('messages of bots, with @everyone, and of other threads do nothing', async () => {
    const { startBot, channel, twin, agents } = await openStage()
    await startBot()
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { prompt: 'begin' })
    const thread = await channel.waitForThread('begin')
    await thread.waitForTranscript('✓')
    const mighty = channel.user('Mo', {
      permissions: ['ManageGuild', 'MentionEveryone', 'CreatePublicThreads'],
    })
    await mighty.in(thread).say('@everyone look')
    await maria.say('in the channel')
    const other = mighty.startThread('theirs')
    await mighty.in(other).say('in another thread')
    await maria.in(thread).say('for the agent')
    await thread.waitForTranscript('echo: for the agent')
    expect(agents.prompts).toEqual(['begin', 'for the agent'])
    expect(twin.counters.messages[other.id]).toBe(1)
  })
})

describe('setting up a provider', () => {
  it('stores a right key, refuses a wrong one, and shows neither', async () => {
    const { startBot, channel, registry, dataDir, log } = await openStage()
    const bot = await startBot()
    const maria = manager(channel)
    const opened = await maria.runSlashCommand('sandbox-setup', { provider: 'keyed' })
    expect(opened.modal!.title).toBe('Set up Keyed Sandboxes')
    const wrong = await maria.submitModal({ 'api-key': 'a-wrong-secret-key', region: 'eu' })
    const refused = await wrong.waitForReply()
    expect(refused.isEphemeral).toBe(true)
    expect(refused.content).toContain('was refused')
    expect(await registry.credentials.list({ appId: bot.appId })).not.toContainEqual(
      expect.objectContaining({ provider: 'keyed', stored: true }),
    )

    await maria.runSlashCommand('sandbox-setup', { provider: 'keyed' })
    const right = await maria.submitModal({ 'api-key': 'the-right-key' })
    expect((await right.waitForReply()).content).toMatch(/Keyed Sandboxes is set up.*\n.*no room for four/)
    expect(await registry.credentials.list({ appId: bot.appId })).toContainEqual(
      expect.objectContaining({ provider: 'keyed', secrets: ['apiKey'] }),
    )

    const audit = await bot.threads.auditLog({ guildId: channel.guildId })
    expect(audit.map(({ target }) => target)).toContain('keyed')
    const files = await Promise.all(
      (await readdir(dataDir, { recursive: true, withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map((entry) => readFile(path.join(entry.parentPath, entry.name), 'latin1')),
    )
    const everything = [JSON.stringify([log, audit]), channel.transcript(), ...files].join('\n')
    expect(everything).not.toMatch(/the-right-key|a-wrong-secret-key/)
  })

  it('names providers that are meant', async () => {
    const { startBot, channel } = await openStage()
    await startBot()
    const used = await manager(channel).runSlashCommand('sandbox-setup', { provider: 'keyd' })
    expect((await used.waitForReply()).content).toContain('keyed')
  })
})
