import { once } from 'node:events'
import { type Client, Events, type TextChannel, ThreadAutoArchiveDuration } from 'discord.js'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startTwin, type Twin, type TwinChannel, type TwinUser } from './index.ts'
import { login, request } from './testing/client.ts'

let discord: Twin
let channel: TwinChannel
let ada: TwinUser
let client: Client<true>
let general: TextChannel

beforeEach(async () => {
  discord = await startTwin({ limits: { hasRateLimits: false } })
  channel = discord.guild().channel('general')
  ada = channel.user('Ada')
  client = await login(discord)
  general = client.channels.cache.get(channel.id) as TextChannel
})

afterEach(async () => {
  await client.destroy()
  await discord.close()
})

test('a thread of its own: members, messages, archive and reopen', async () => {
  const created = once(client, Events.ThreadCreate)
  const thread = await general.threads.create({ name: 'work', autoArchiveDuration: 60 })
  const [, isNew] = await created
  expect(isNew).toBe(true)
  await thread.members.add(ada.id)
  await thread.sendTyping()
  await thread.send('hello')
  const seen = channel.threads[0]!
  expect(seen.members).toEqual(['sandkasten', 'Ada'])
  const updated = once(client, Events.ThreadUpdate)
  await thread.setArchived(true)
  await updated
  expect(seen.transcript()).toBe('# work (archived)\nsandkasten: hello')
  const reopened = once(client, Events.ThreadUpdate)
  await ada.in(seen).say('again')
  const [before, after] = await reopened
  expect([before.archived, after.archived]).toEqual([true, false])
  expect(seen.transcript()).toBe('# work\nsandkasten: hello\nAda: again')
  expect(channel.read()).toBe('# general\nsandkasten: started the thread "work"')
})

test('a thread from a message has its id, and there is only one', async () => {
  const message = await general.send('start here')
  const thread = await message.startThread({ name: 'work' })
  expect(thread.id).toBe(message.id)
  const path = `/channels/${channel.id}/messages/${message.id}/threads`
  const again = await request(discord, 'POST', path, { name: 'again' })
  expect(again).toMatchObject({ status: 400, body: { code: 160004 } })
  expect(channel.read()).toBe('# general\nsandkasten: start here\n  thread: work')
  expect(channel.threads[0]!.transcript()).toBe('# work\nsandkasten: start here')
})

test('a thread without messages is archived after its duration', async () => {
  const thread = await general.threads.create({
    name: 'work',
    autoArchiveDuration: ThreadAutoArchiveDuration.OneHour,
  })
  const seen = channel.threads[0]!
  discord.clock.advance(59 * 60_000)
  await ada.in(seen).say('still here')
  discord.clock.advance(59 * 60_000)
  expect(seen.isArchived).toBe(false)
  const updated = once(client, Events.ThreadUpdate)
  discord.clock.advance(60_000)
  await updated
  expect(thread.archived).toBe(true)
  expect(seen.isArchived).toBe(true)
})

test('in an archived thread nothing is edited, deleted, renamed or added', async () => {
  const thread = await general.threads.create({ name: 'work' })
  const message = await thread.send('x')
  await thread.setArchived(true)
  const archived = { status: 400, code: 50083 }
  await expect(message.edit('y')).rejects.toMatchObject(archived)
  await expect(message.react('👍')).rejects.toMatchObject(archived)
  await expect(message.delete()).rejects.toMatchObject(archived)
  await expect(thread.setName('y')).rejects.toMatchObject(archived)
  await expect(thread.members.add(ada.id)).rejects.toMatchObject(archived)
  await thread.setArchived(false)
  await message.edit('y')
  expect(channel.threads[0]!.transcript()).toBe('# work\nsandkasten: y')
})

test('users archive their own threads, and moderators all', async () => {
  const thread = await general.threads.create({ name: 'work' })
  const seen = channel.threads[0]!
  expect(() => ada.archive(seen)).toThrow('Ada may not archive "work": it needs ManageThreads')
  const moderator = channel.user('Mo', { permissions: ['ManageThreads'] })
  const updated = once(client, Events.ThreadUpdate)
  moderator.archive(seen)
  await updated
  expect(thread.archived).toBe(true)
  ada.unarchive(seen)
  expect(seen.isArchived).toBe(false)
  const own = ada.startThread('mine')
  ada.archive(own)
  expect(own.isArchived).toBe(true)
})

test('only moderators speak in a locked thread', async () => {
  const thread = await general.threads.create({ name: 'work' })
  const seen = channel.threads[0]!
  await thread.setLocked(true)
  await expect(ada.in(seen).say('x')).rejects.toThrow('it needs ManageThreads')
  const moderator = channel.user('Mo', { permissions: ['ManageThreads'] })
  await moderator.in(seen).say('x')
  expect(seen.transcript()).toBe('# work (locked)\nMo: x')
})

test('active and archived threads are listed', async () => {
  await general.threads.create({ name: 'a' })
  const b = await general.threads.create({ name: 'b' })
  await b.setArchived(true)
  const active = await general.threads.fetchActive()
  const archived = await general.threads.fetchArchived()
  expect(active.threads.map(({ name }) => name)).toEqual(['a'])
  expect(archived.threads.map(({ name }) => name)).toEqual(['b'])
})

test('a client that logs in later knows the active threads', async () => {
  await general.threads.create({ name: 'a' })
  const later = await login(discord)
  const cached = later.channels.cache.filter((each) => each.isThread())
  expect(cached.map((thread) => thread.isThread() && thread.name)).toEqual(['a'])
  await later.destroy()
})
