import { once } from 'node:events'
import { ChannelType, type Client, Events, type TextChannel } from 'discord.js'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  DEFAULT_BOT_PERMISSIONS,
  type PermissionName,
  startTwin,
  type Twin,
  type TwinChannel,
} from './index.ts'
import { login, request } from './testing/client.ts'

let discord: Twin
let channel: TwinChannel
let client: Client<true>
let general: TextChannel

beforeEach(async () => {
  discord = await startTwin({ limits: { hasRateLimits: false } })
  channel = discord.guild().channel('general')
  client = await login(discord)
  general = client.channels.cache.get(channel.id) as TextChannel
})

afterEach(async () => {
  await client.destroy()
  await discord.close()
})

const actions: [PermissionName, (general: TextChannel) => Promise<unknown>][] = [
  ['SendMessages', (general) => general.send('x')],
  ['AttachFiles', (general) => general.send({ files: [{ attachment: Buffer.from('x'), name: 'a' }] })],
  ['CreatePublicThreads', (general) => general.threads.create({ name: 'x' })],
  [
    'CreatePrivateThreads',
    (general) => general.threads.create({ name: 'x', type: ChannelType.PrivateThread }),
  ],
  [
    'ReadMessageHistory',
    (general) => general.messages.fetch({ message: general.lastMessageId!, cache: false, force: true }),
  ],
  ['AddReactions', async (general) => (await general.messages.fetch({ limit: 1 })).first()!.react('👍')],
]

test.each(actions)('without %s the bot gets code 50013, and with it the work is done', async (name, act) => {
  await channel.user('Ada').say('first')
  await expect.poll(() => general.lastMessageId).not.toBeNull()
  channel.deny([name], discord.mainBot)
  await expect(act(general)).rejects.toMatchObject({ status: 403, code: 50013 })
  channel.allow([name], discord.mainBot)
  await act(general)
})

test('without ReadMessageHistory a list of messages is empty', async () => {
  await channel.user('Ada').say('first')
  expect((await general.messages.fetch({ limit: 5 })).size).toBe(1)
  channel.deny(['ReadMessageHistory'], discord.mainBot)
  expect((await general.messages.fetch({ limit: 5 })).size).toBe(0)
})

test('without ViewChannel the bot gets code 50001, hears nothing, and learns of threads when it may again', async () => {
  const heard: string[] = []
  client.on('messageCreate', (message) => message.system || heard.push(message.content))
  channel.deny(['ViewChannel'], discord.mainBot)
  await expect(general.send('x')).rejects.toMatchObject({ status: 403, code: 50001 })
  const ada = channel.user('Ada')
  await ada.say('unheard')
  const thread = ada.startThread('secret')
  const synced = once(client, Events.ThreadListSync)
  channel.allow(['ViewChannel'], discord.mainBot)
  await synced
  await ada.in(thread).say('heard')
  await expect.poll(() => heard).toEqual(['heard'])
  expect(client.channels.cache.has(thread.id)).toBe(true)
})

test('threads have a permission of their own to send', async () => {
  const thread = await general.threads.create({ name: 'x' })
  channel.deny(['SendMessagesInThreads'], discord.mainBot)
  await expect(thread.send('x')).rejects.toMatchObject({ code: 50013 })
  await general.send('x')
})

test('the bot renames, locks and deletes threads of others only with ManageThreads', async () => {
  const ada = channel.user('Ada')
  const created = once(client, Events.ThreadCreate)
  ada.startThread('mine')
  const [thread] = await created
  discord.guild().setBotPermissions(
    discord.mainBot,
    DEFAULT_BOT_PERMISSIONS.filter((name) => name !== 'ManageThreads'),
  )
  for (const act of [() => thread.setName('y'), () => thread.setLocked(true), () => thread.delete()]) {
    await expect(act()).rejects.toMatchObject({ code: 50013 })
  }
  discord.guild().setBotPermissions(discord.mainBot, DEFAULT_BOT_PERMISSIONS)
  await thread.setName('yours')
  await thread.delete()
  expect(channel.threads).toEqual([])
})

test('private threads are seen by their members', async () => {
  const other = discord.bot('other')
  discord.guild().invite(other, ['ViewChannel', 'SendMessages'])
  const thread = await general.threads.create({ name: 'x', type: ChannelType.PrivateThread })
  const read = () => request(discord, 'GET', `/channels/${thread.id}`, undefined, other.token)
  expect(await read()).toMatchObject({ status: 403, body: { code: 50001 } })
  await thread.members.add(other.id)
  expect(await read()).toMatchObject({ status: 200 })
})

test('messages of others cannot be edited, and are deleted only with ManageMessages', async () => {
  const said = await channel.user('Ada').say('x')
  const path = `/channels/${channel.id}/messages/${said.id}`
  expect(await request(discord, 'PATCH', path, { content: 'y' })).toMatchObject({
    status: 403,
    body: { code: 50005 },
  })
  expect(await request(discord, 'DELETE', path)).toMatchObject({ status: 403, body: { code: 50013 } })
  discord.guild().setBotPermissions(discord.mainBot, [...DEFAULT_BOT_PERMISSIONS, 'ManageMessages'])
  expect(await request(discord, 'DELETE', path)).toMatchObject({ status: 204 })
  expect(said.isDeleted).toBe(true)
})

test('channels are created with ManageChannels', async () => {
  const guild = client.guilds.cache.get(channel.guildId)!
  await expect(guild.channels.create({ name: 'My Room' })).rejects.toMatchObject({ code: 50013 })
  discord.guild().setBotPermissions(discord.mainBot, [...DEFAULT_BOT_PERMISSIONS, 'ManageChannels'])
  const created = await guild.channels.create({ name: 'My Room' })
  expect(created.name).toBe('my-room')
  await created.delete()
  expect(discord.guild().channels.map(({ name }) => name)).toEqual(['general'])
})

test('a member brings its permissions and roles along', async () => {
  await client.application.commands.set([{ name: 'who', description: 'x' }])
  client.on('interactionCreate', async (interaction) => {
    if (!interaction.isChatInputCommand() || !interaction.inCachedGuild()) return
    const roles = interaction.member.roles.cache.map(({ name }) => name).sort()
    await interaction.reply(`${roles.join(', ')}; ${interaction.memberPermissions.has('ManageGuild')}`)
  })
  await channel.user('Ada', { roles: ['builders'] }).runSlashCommand('who')
  await channel.user('Bob', { permissions: ['ManageGuild'] }).runSlashCommand('who')
  expect(channel.read()).toBe(
    '# general\nsandkasten: @everyone, builders; false\nsandkasten: @everyone, permissions of Bob; true',
  )
})

test('a command that needs permissions is hidden from others', async () => {
  await client.application.commands.set([
    { name: 'setup', description: 'x', defaultMemberPermissions: 'ManageGuild' },
  ])
  await expect(channel.user('Ada').runSlashCommand('setup')).rejects.toThrow(
    'Ada does not see /setup: it needs ManageGuild',
  )
  client.on('interactionCreate', (interaction) => interaction.isRepliable() && interaction.reply('ok'))
  await channel.user('Bob', { permissions: ['ManageGuild'] }).runSlashCommand('setup')
})

test('a guild that the bot is not in answers with code 50001', async () => {
  const other = discord.guild('Other', { bots: [] })
  expect(await request(discord, 'GET', `/guilds/${other.id}`)).toMatchObject({
    status: 403,
    body: { code: 50001 },
  })
  const room = other.channel('room')
  expect(await request(discord, 'GET', `/channels/${room.id}`)).toMatchObject({ body: { code: 50001 } })
})
