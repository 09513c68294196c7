import { afterEach, expect, test } from 'vitest'
import { startTwin, type Twin } from './index.ts'
import { login, request } from './testing/client.ts'

let discord: Twin

afterEach(() => discord.close())

test('each channel has a bucket; the sixth request within the window gets 429', async () => {
  discord = await startTwin()
  const channel = discord.guild().channel('general')
  const send = (id = channel.id) => request(discord, 'POST', `/channels/${id}/messages`, { content: 'x' })
  for (let i = 0; i < 5; i++) {
    const { status, headers } = await send()
    expect(status).toBe(200)
    expect(headers.get('x-ratelimit-limit')).toBe('5')
    expect(headers.get('x-ratelimit-remaining')).toBe(String(4 - i))
    expect(Number(headers.get('x-ratelimit-reset-after'))).toBeLessThanOrEqual(5)
    expect(headers.get('x-ratelimit-bucket')).toMatch(/^[0-9a-f]{32}$/)
  }
  const { status, headers, body } = await send()
  expect(status).toBe(429)
  expect(body).toMatchObject({ message: 'You are being rate limited.', global: false })
  expect(body.retry_after).toBeGreaterThan(0)
  expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(headers.get('x-ratelimit-scope')).toBe('user')
  expect((await send(discord.guild().channel('other').id)).status).toBe(200)
  discord.clock.advance(5001)
  expect((await send()).status).toBe(200)
  expect(channel.messages).toHaveLength(6)
  expect(discord.counters.requests['POST /channels/:channel/messages']).toBe(8)
  expect(discord.counters.rateLimited['POST /channels/:channel/messages']).toBe(1)
})

test('a bot has 50 requests per second for all routes', async () => {
  discord = await startTwin()
  const answers = await Promise.all(
    Array.from({ length: 60 }, () => request(discord, 'GET', `/users/${discord.mainBot.id}`)),
  )
  const refused = answers.filter(({ status }) => status === 429)
  expect(refused.length).toBeGreaterThanOrEqual(10)
  expect(refused[0]!.body.global).toBe(true)
  expect(refused[0]!.headers.get('x-ratelimit-global')).toBe('true')
  const other = discord.bot('other')
  expect((await request(discord, 'GET', '/users/@me', undefined, other.token)).status).toBe(200)
})

test('a thread can be renamed twice in ten minutes', async () => {
  discord = await startTwin()
  const channel = discord.guild().channel('general')
  const ada = channel.user('Ada')
  const thread = ada.startThread('first')
  const rename = (name: string) => request(discord, 'PATCH', `/channels/${thread.id}`, { name })
  expect((await rename('second')).status).toBe(200)
  expect((await rename('third')).status).toBe(200)
  const refused = await rename('fourth')
  expect(refused.status).toBe(429)
  expect(refused.body.retry_after).toBeGreaterThan(590)
  expect((await request(discord, 'PATCH', `/channels/${thread.id}`, { locked: true })).status).toBe(200)
  discord.clock.advance(600_001)
  expect((await rename('fourth')).status).toBe(200)
  expect(thread.name).toBe('fourth')
})

test('discord.js waits for its bucket: a burst of edits ends complete and without 429', async () => {
  discord = await startTwin({
    limits: { buckets: { 'PATCH /channels/:channel/messages/:message': { limit: 5, windowMs: 300 } } },
  })
  const channel = discord.guild().channel('general')
  const client = await login(discord)
  const general = client.channels.cache.get(channel.id)
  if (!general?.isSendable()) throw new Error('no channel')
  const message = await general.send('0')
  await Promise.all(Array.from({ length: 17 }, (_, i) => message.edit(String(i + 1))))
  expect(channel.read()).toBe('# general\nsandkasten: 17')
  expect(discord.counters.edits[channel.id]).toBe(17)
  expect(discord.counters.rateLimited).toEqual({})
  await client.destroy()
})

test('rate limits can be turned off', async () => {
  discord = await startTwin({ limits: { hasRateLimits: false } })
  const { id } = discord.guild().channel('general')
  const send = () => request(discord, 'POST', `/channels/${id}/messages`, { content: 'x' })
  const answers = await Promise.all(Array.from({ length: 60 }, send))
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
})

test('discord.js repeats a request that was refused with 429', async () => {
  discord = await startTwin()
  const channel = discord.guild().channel('general')
  const client = await login(discord)
  const general = client.channels.cache.get(channel.id)
  if (!general?.isSendable()) throw new Error('no channel')
  discord.faults.requests.rateLimit('POST /channels/:channel/messages', 100, { times: 1 })
  await general.send('x')
  expect(channel.read()).toBe('# general\nsandkasten: x')
  expect(discord.counters.rateLimited).toEqual({ 'POST /channels/:channel/messages': 1 })
  expect(discord.counters.longestRateLimitedRun).toBe(1)
  await client.destroy()
})
