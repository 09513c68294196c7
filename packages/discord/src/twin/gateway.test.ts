import { once } from 'node:events'
import { type Client, Events, GatewayIntentBits } from 'discord.js'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { startTwin, type Twin, type TwinChannel, type TwinUser } from './index.ts'
import { INTENTS, login } from './testing/client.ts'

let discord: Twin
let channel: TwinChannel
let ada: TwinUser
let client: Client<true>
let heard: string[]

beforeEach(async () => {
  discord = await startTwin()
  channel = discord.guild().channel('general')
  ada = channel.user('Ada')
  heard = []
})

afterEach(async () => {
  await client?.destroy()
  await discord.close()
})

async function listen(options?: Parameters<typeof login>[1]): Promise<void> {
  client = await login(discord, options)
  client.on('messageCreate', ({ content }) => void heard.push(content))
}

/** A client that speaks the gateway's protocol by hand. */
async function connect(...payloads: object[]): Promise<{
  socket: WebSocket
  closed: Promise<number>
  received: { d: { session_id: string } }[]
}> {
  const socket = new WebSocket(`${discord.api.replace('http', 'ws').replace('/api', '')}/?v=10&encoding=json`)
  const received: { d: { session_id: string } }[] = []
  socket.on('message', (raw) => received.push(JSON.parse(String(raw))))
  const closed = once(socket, 'close').then(([code]) => code as number)
  await once(socket, 'open')
  for (const payload of payloads) socket.send(JSON.stringify(payload))
  return { socket, closed, received }
}

const identify = (d: object = {}) => ({
  op: 2,
  d: { token: discord.token, intents: 1, properties: {}, ...d },
})

test('after close code 4000 the client resumes and receives what it has missed, once', async () => {
  await listen()
  await ada.say('before')
  discord.gateway.setAccepting(false)
  discord.gateway.drop({ code: 4000 })
  await discord.waitFor('the connection to end', () => discord.gateway.connected().length === 0)
  for (let i = 0; i < 20; i++) await ada.say(`missed ${i}`)
  discord.gateway.setAccepting(true)
  await expect.poll(() => heard.length).toBe(21)
  await ada.say('after')
  await expect.poll(() => heard.at(-1)).toBe('after')
  expect(heard).toEqual(['before', ...Array.from({ length: 20 }, (_, i) => `missed ${i}`), 'after'])
  expect(discord.counters.gateway).toMatchObject({ identifies: 1, resumes: 1 })
})

test('a connection that is cut is resumed', async () => {
  await listen()
  discord.gateway.cut()
  await ada.say('missed')
  await expect.poll(() => heard).toEqual(['missed'])
  expect(discord.counters.gateway).toMatchObject({ identifies: 1, resumes: 1 })
})

test('op 7 asks the client to reconnect, and it resumes', async () => {
  await listen()
  const resumed = once(client, Events.ShardResume)
  discord.gateway.requestReconnect()
  await resumed
  await ada.say('x')
  await expect.poll(() => heard).toEqual(['x'])
})

test('an invalid session is identified again, and events between are lost', async () => {
  await listen()
  const ready = once(client, Events.ShardReady)
  discord.gateway.invalidateSessions()
  await ada.say('lost')
  await ready
  await ada.say('heard')
  await expect.poll(() => heard).toEqual(['heard'])
  expect(discord.counters.gateway).toMatchObject({ identifies: 2, resumes: 0 })
})

test('a session that was lost for too long cannot be resumed', async () => {
  await listen()
  const ready = once(client, Events.ShardReady)
  discord.gateway.setAccepting(false)
  discord.gateway.drop()
  await discord.waitFor('the connection to end', () => discord.gateway.connected().length === 0)
  discord.clock.advance(10 * 60_000)
  discord.gateway.setAccepting(true)
  await ready
  expect(discord.counters.gateway).toMatchObject({ identifies: 2, resumes: 0 })
})

test('without acknowledged heartbeats the client leaves the zombie and loses nothing', async () => {
  discord.limits.heartbeatIntervalMs = 150
  await listen()
  discord.gateway.setZombie(true)
  await ada.say('swallowed')
  expect(heard).toEqual([])
  await discord.waitFor('the client to give up', () => discord.gateway.connected().length === 0)
  discord.gateway.setZombie(false)
  await expect.poll(() => heard).toEqual(['swallowed'])
})

test.each([
  ['a wrong token', { token: 'wrong' }, 4004],
  ['intents that do not exist', { intents: 1 << 30 }, 4013],
  ['a privileged intent that is off', { intents: 1 << 15 }, 4014],
])('%s closes the connection', async (_, data, code) => {
  discord.setPrivilegedIntents(discord.mainBot, 0)
  const { closed } = await connect(identify(data))
  expect(await closed).toBe(code)
})

test('discord.js refuses to log in with a wrong token or a disallowed intent', async () => {
  await expect(login(discord, { bot: { ...discord.mainBot, token: 'wrong' } })).rejects.toThrow(/token/i)
  discord.setPrivilegedIntents(discord.mainBot, 0)
  await expect(login(discord)).rejects.toThrow('disallowed intents')
})

test.each([
  ['an unknown opcode', { op: 99, d: null }, 4001],
  ['a payload without opcode', {}, 4002],
  ['a large payload', { op: 3, d: 'x'.repeat(5000) }, 4002],
  ['a request before identify', { op: 8, d: {} }, 4003],
])('%s closes the connection', async (_, payload, code) => {
  const { closed } = await connect(payload)
  expect(await closed).toBe(code)
})

test('identifying twice, and a sequence that never was, close the connection', async () => {
  expect(await (await connect(identify(), identify())).closed).toBe(4005)
  const { socket, received } = await connect(identify())
  await expect.poll(() => received.length).toBeGreaterThan(1)
  const resume = { token: discord.token, session_id: received[1]!.d.session_id, seq: 1000 }
  expect(await (await connect({ op: 6, d: resume })).closed).toBe(4007)
  socket.close()
})

test('a client without heartbeats is closed with 4009', async () => {
  discord.limits.heartbeatIntervalMs = 60
  const { closed } = await connect(identify())
  expect(await closed).toBe(4009)
})

test('121 payloads in a minute are too many', async () => {
  const { closed } = await connect(identify(), ...Array.from({ length: 120 }, () => ({ op: 3, d: {} })))
  expect(await closed).toBe(4008)
})

test('without the intent, content is absent, except where the bot is mentioned or the author', async () => {
  await listen({ intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMessages] })
  await ada.say('secret', { files: [{ name: 'a.txt', bytes: new Uint8Array(1) }] })
  await ada.say(`<@${client.user.id}> hello`)
  const general = client.channels.cache.get(channel.id)
  if (!general?.isSendable()) throw new Error('no channel')
  await general.send('mine')
  await expect.poll(() => heard).toEqual(['', `<@${client.user.id}> hello`, 'mine'])
})

test('a bot receives only events that its intents name', async () => {
  await listen({ intents: [GatewayIntentBits.Guilds] })
  await ada.say('x')
  const created = once(client, Events.ChannelCreate)
  discord.guild().channel('later')
  await created
  expect(heard).toEqual([])
})

test('members can be requested', async () => {
  await listen({ intents: [...INTENTS, GatewayIntentBits.GuildMembers] })
  const guild = client.guilds.cache.get(channel.guildId)!
  const members = await guild.members.fetch({ user: [ada.id, client.user.id] })
  expect(members.map(({ displayName }) => displayName).sort()).toEqual(['Ada', 'sandkasten'])
})

test('twenty clients hear every message once while their connections are dropped', async () => {
  const guild = discord.guild()
  const bots = Array.from({ length: 20 }, (_, i) => discord.bot(`bot ${i}`))
  for (const bot of bots) guild.invite(bot)
  const clients = await Promise.all(bots.map((bot) => login(discord, { bot })))
  const logs = clients.map((each) => {
    const log: string[] = []
    each.on('messageCreate', (message) => message.author.bot || log.push(message.content))
    return log
  })
  for (let i = 0; i < 30; i++) {
    await ada.say(String(i))
    if (i === 10) discord.gateway.drop()
    if (i === 20) discord.gateway.cut()
  }
  const expected = Array.from({ length: 30 }, (_, i) => String(i))
  await expect.poll(() => logs.every((log) => log.length >= 30)).toBe(true)
  for (const log of logs) expect(log).toEqual(expected)
  await Promise.all(
    clients.map(async (each) => {
      const general = each.channels.cache.get(channel.id)
      if (general?.isSendable()) await general.send(`from ${each.user.username}`)
    }),
  )
  expect(discord.counters.messages[channel.id]).toBe(50)
  await Promise.all(clients.map((each) => each.destroy()))
})
