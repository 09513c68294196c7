import { once } from 'node:events'
import { type Client, Events, type SendableChannels } from 'discord.js'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startTwin, type Twin, type TwinChannel, type TwinUser } from './index.ts'
import { login, request } from './testing/client.ts'

const SEND = 'POST /channels/:channel/messages'

let discord: Twin
let channel: TwinChannel
let ada: TwinUser
let client: Client<true>
let general: SendableChannels
let heard: string[]

beforeEach(async () => {
  discord = await startTwin({ limits: { hasRateLimits: false } })
  channel = discord.guild().channel('general')
  ada = channel.user('Ada')
  client = await login(discord, { rest: { timeout: 300 } })
  heard = []
  client.on('messageCreate', (message) => message.author.bot || message.system || heard.push(message.content))
  general = client.channels.cache.get(channel.id) as SendableChannels
})

afterEach(async () => {
  await client.destroy()
  await discord.close()
})

test('a response that is lost after the work: with a nonce the repeat makes no second message', async () => {
  discord.faults.requests.loseResponse(SEND)
  const sent = await general.send({ content: 'once', nonce: 'n1', enforceNonce: true })
  expect(channel.read()).toBe('# general\nsandkasten: once')
  expect(sent.id).toBe(channel.messages[0]!.id)
  expect(discord.counters.requests[SEND]).toBe(2)
})

test('a response that is lost after the work: without a nonce the message is there twice', async () => {
  discord.faults.requests.loseResponse(SEND)
  await general.send('twice')
  expect(channel.read()).toBe('# general\nsandkasten: twice\nsandkasten: twice')
})

test('500 is answered as often as the fault says, for one channel only', async () => {
  const other = discord.guild().channel('other')
  discord.faults.requests.fail(SEND, { status: 503, times: 2, path: channel.id })
  const send = (id: string) => request(discord, 'POST', `/channels/${id}/messages`, { content: 'x' })
  expect((await send(other.id)).status).toBe(200)
  expect((await send(channel.id)).status).toBe(503)
  expect((await send(channel.id)).status).toBe(503)
  expect((await send(channel.id)).status).toBe(200)
  expect(channel.messages).toHaveLength(1)
})

test('discord.js repeats after 500, and after a request that hangs', async () => {
  discord.faults.requests.fail(SEND, { times: 2 })
  await general.send('a')
  discord.faults.requests.hang(SEND)
  await general.send('b')
  expect(channel.read()).toBe('# general\nsandkasten: a\nsandkasten: b')
})

test('a request can be delayed', async () => {
  discord.faults.requests.delay(SEND, 50)
  const slow = request(discord, 'POST', `/channels/${channel.id}/messages`, { content: 'slow' })
  await discord
    .waitFor('the request', () => discord.counters.requests[SEND] === 1 || undefined)
    .catch(() => {})
  await request(discord, 'POST', `/channels/${channel.id}/messages`, { content: 'fast' })
  await slow
  expect(channel.read()).toBe('# general\nsandkasten: fast\nsandkasten: slow')
})

test('a fault for a route that does not exist is refused', () => {
  expect(() => discord.faults.requests.fail('POST /nothing')).toThrow('the twin has no route "POST /nothing"')
})

test('an event arrives twice', async () => {
  discord.faults.events.duplicate({ name: 'MESSAGE_CREATE', times: 1 })
  const packets: string[] = []
  // discord.js itself ignores a message that it has seen.
  client.on(
    'raw',
    ({ t, d }: { t: string; d: { content: string } }) => t === 'MESSAGE_CREATE' && packets.push(d.content),
  )
  await ada.say('a')
  await ada.say('b')
  await expect.poll(() => packets).toEqual(['a', 'a', 'b'])
  expect(heard).toEqual(['a', 'b'])
})

test('an event arrives late, after later ones', async () => {
  discord.faults.events.delay(100, { name: 'MESSAGE_CREATE', times: 1 })
  await ada.say('late')
  await ada.say('b')
  await expect.poll(() => heard).toEqual(['b', 'late'])
})

test('events are held back and arrive in reverse order', async () => {
  const held = discord.faults.events.hold({ name: 'MESSAGE_CREATE' })
  await ada.say('a')
  await ada.say('b')
  expect(held.count).toBe(2)
  held.release({ isReversed: true })
  await ada.say('c')
  await expect.poll(() => heard).toEqual(['b', 'a', 'c'])
})

test('an outage of a guild', async () => {
  const guild = discord.guild()
  const gone = once(client, Events.GuildUnavailable)
  guild.setUnavailable()
  await gone
  await ada.say('unheard')
  const back = once(client, Events.GuildAvailable)
  guild.setUnavailable(false)
  await back
  await ada.say('heard')
  await expect.poll(() => heard).toEqual(['heard'])
})

test('a bot is kicked and invited again', async () => {
  const guild = discord.guild()
  const gone = once(client, Events.GuildDelete)
  guild.kick(discord.mainBot)
  await gone
  expect(guild.hasBot(discord.mainBot)).toBe(false)
  await expect(general.send('x')).rejects.toMatchObject({ code: 50001 })
  await ada.say('unheard')
  const back = once(client, Events.GuildCreate)
  guild.invite(discord.mainBot)
  await back
  await ada.say('heard')
  await expect.poll(() => heard).toEqual(['heard'])
  await (client.channels.cache.get(channel.id) as SendableChannels).send('back')
  expect(channel.read()).toBe('# general\nAda: unheard\nAda: heard\nsandkasten: back')
})

test('a channel is deleted, with its threads and files', async () => {
  const thread = ada.startThread('work')
  const said = await ada.in(thread).say('x', { files: [{ name: 'a.txt', bytes: new Uint8Array(3) }] })
  await expect.poll(() => heard).toEqual(['x'])
  const gone = once(client, Events.ChannelDelete)
  channel.delete()
  await gone
  await expect(general.send('x')).rejects.toMatchObject({ status: 404, code: 10003 })
  expect((await request(discord, 'GET', `/channels/${thread.id}`)).body.code).toBe(10003)
  await expect(said.download('a.txt')).rejects.toThrow('status 404')
  await expect(ada.say('x')).rejects.toThrow('"general" was deleted')
})

test('a thread is deleted', async () => {
  const thread = ada.startThread('work')
  const gone = once(client, Events.ThreadDelete)
  thread.delete()
  const [deleted] = await gone
  expect(deleted.id).toBe(thread.id)
  expect(thread.isDeleted).toBe(true)
})

test('a wait that fails tells what it has seen', async () => {
  await ada.say('hello')
  await expect(channel.waitForMessage('goodbye', { timeoutMs: 20 })).rejects.toThrow(
    'waited 20 ms for a message in "general" that matches "goodbye"; the last state was:\n# general\nAda: hello',
  )
})
