import type { Client, Interaction } from 'discord.js'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startTwin, type Twin, type TwinChannel, type TwinUser } from './index.ts'
import { login, request } from './testing/client.ts'

let discord: Twin
let channel: TwinChannel

beforeEach(async () => {
  discord = await startTwin({
    limits: { hasRateLimits: false },
  })
  channel = discord.guild().channel('general')
})

afterEach(() => discord.close())

describe('messages', () => {
  const send = (body: unknown) => request(discord, 'POST', `/channels/${channel.id}/messages`, body)

  test('a text of 2,001 characters is refused with a tree of errors', async () => {
    expect(await send({ content: 'x'.repeat(2000) })).toMatchObject({ status: 200 })
    expect(await send({ content: 'x'.repeat(2001) })).toMatchObject({
      status: 400,
      body: {
        code: 50035,
        message: 'Invalid Form Body',
        errors: {
          content: {
            _errors: [{ code: 'BASE_TYPE_MAX_LENGTH', message: 'Must be 2000 or fewer in length.' }],
          },
        },
      },
    })
    expect(channel.messages).toHaveLength(1)
  })

  test('emoji count as one character each', async () => {
    expect(await send({ content: '😀'.repeat(2000) })).toMatchObject({ status: 200 })
    expect(await send({ content: '😀'.repeat(2001) })).toMatchObject({ status: 400 })
  })

  test.each([
    ['an empty message', { content: ' ' }, 50006],
    ['a number as text', { content: 1 }, 50035],
    ['text that is not JSON', '{', 50109],
    ['11 embeds', { embeds: Array.from({ length: 11 }, () => ({ title: 'x' })) }, 50035],
    ['an embed with a long title', { embeds: [{ title: 'x'.repeat(257) }] }, 50035],
    [
      'embeds of 6,001 characters',
      { embeds: [{ description: 'x'.repeat(4000) }, { description: 'x'.repeat(2001) }] },
      50035,
    ],
    [
      '6 rows',
      { content: 'x', components: Array.from({ length: 6 }, (_, i) => row(button(`b${i}`))) },
      50035,
    ],
    [
      '6 buttons in a row',
      { content: 'x', components: [row(...[1, 2, 3, 4, 5, 6].map((i) => button(`b${i}`)))] },
      50035,
    ],
    ['a custom id twice', { content: 'x', components: [row(button('b'), button('b'))] }, 50035],
    ['a long custom id', { content: 'x', components: [row(button('b'.repeat(101)))] }, 50035],
    ['a button without a row', { content: 'x', components: [button('b')] }, 50035],
    ['26 options', { content: 'x', components: [row(select(26))] }, 50035],
    ['a long nonce', { content: 'x', nonce: 'n'.repeat(26) }, 50035],
    ['an answer to nothing', { content: 'x', message_reference: { message_id: '1' } }, 50035],
    [
      'parse together with users',
      { content: 'x', allowed_mentions: { parse: ['users'], users: ['1'] } },
      50035,
    ],
  ])('%s is refused', async (_, body, code) => {
    expect(await send(body)).toMatchObject({ status: 400, body: { code } })
    expect(channel.messages).toEqual([])
  })

  test('25 options and 5 buttons are accepted', async () => {
    const buttons = [1, 2, 3, 4, 5].map((i) => button(`b${i}`))
    expect(await send({ content: 'x', components: [row(select(25)), row(...buttons)] })).toMatchObject({
      status: 200,
    })
  })

  test('the same nonce of the same author returns the first message, for some minutes', async () => {
    const body = { content: 'x', nonce: '1', enforce_nonce: true }
    const first = await send(body)
    const second = await send({ ...body, content: 'y' })
    expect(second.body.id).toBe(first.body.id)
    expect(channel.read()).toBe('# general\nsandkasten: x')
    expect(discord.counters.repeatedNonces).toBe(1)
    await send({ content: 'without enforce_nonce', nonce: '1' })
    expect(channel.messages).toHaveLength(2)
    const other = discord.bot('other')
    discord.guild().invite(other)
    await request(discord, 'POST', `/channels/${channel.id}/messages`, body, other.token)
    expect(channel.messages).toHaveLength(3)
    discord.clock.advance(10 * 60_000)
    await send(body)
    expect(channel.messages).toHaveLength(4)
  })

  test('a file that is too large is refused with 413', async () => {
    discord.limits.fileBytes = 1000
    const client = await login(discord)
    const general = client.channels.cache.get(channel.id)
    if (!general?.isSendable()) throw new Error('no channel')
    const send = (size: number) =>
      general.send({ files: [{ attachment: Buffer.alloc(size), name: 'a.bin' }] })
    await send(1000)
    await expect(send(1001)).rejects.toMatchObject({ status: 413, code: 40005 })
    expect(channel.read()).toBe('# general\nsandkasten:\n  file: a.bin (1000 bytes)')
    await client.destroy()
  })

  test('mentions ping only whom allowed_mentions lets them', async () => {
    const ada = channel.user('Ada')
    discord.guild().setBotPermissions(discord.mainBot, ['MentionEveryone'])
    const content = `<@${ada.id}> @everyone`
    await send({ content })
    await send({ content, allowed_mentions: { parse: [] } })
    await send({ content, allowed_mentions: { users: [ada.id] } })
    expect(channel.messages.map(({ pings }) => pings)).toEqual([['@everyone', 'Ada'], [], ['Ada']])
    expect(channel.messages[0]!.toString()).toBe('sandkasten: @Ada @everyone')
  })
})

describe('paths and tokens', () => {
  test.each([
    ['GET', '/channels/1', 404, 10003],
    ['GET', '/guilds/1', 404, 10004],
    ['GET', '/users/1', 404, 10013],
    ['GET', '/channels/:channel/messages/1', 404, 10008],
    ['PATCH', '/webhooks/1/wrong/messages/@original', 404, 10015],
    ['POST', '/webhooks/1/wrong', 404, 10015],
    ['POST', '/interactions/1/wrong/callback', 404, 10062],
    ['GET', '/nothing', 404, 0],
    ['PUT', '/gateway/bot', 405, 0],
  ])('%s %s answers %i with code %i', async (method, path, status, code) => {
    const answer = await request(
      discord,
      method,
      path.replace(':channel', channel.id),
      method === 'GET' ? undefined : {},
    )
    expect(answer).toMatchObject({ status, body: { code } })
  })

  test('a wrong token answers 401', async () => {
    expect(await request(discord, 'GET', '/users/@me', undefined, 'wrong')).toMatchObject({ status: 401 })
    expect(await request(discord, 'GET', '/gateway/bot', undefined, 'wrong')).toMatchObject({ status: 401 })
  })

  test('a name of a thread has 100 characters', async () => {
    const start = (name: string) =>
      request(discord, 'POST', `/channels/${channel.id}/threads`, { name, type: 11 })
    expect(await start('x'.repeat(101))).toMatchObject({ status: 400, body: { code: 50035 } })
    expect(await start('')).toMatchObject({ status: 400, body: { code: 50035 } })
    expect(await start('x'.repeat(100))).toMatchObject({ status: 201 })
  })

  test('messages come in pages', async () => {
    const ada = channel.user('Ada')
    for (let i = 0; i < 7; i++) await ada.say(`m${i}`)
    const ids = channel.messages.map(({ id }) => id)
    const page = async (query: string) => {
      const { body } = await request(discord, 'GET', `/channels/${channel.id}/messages?${query}`)
      return (body as unknown as { content: string }[]).map(({ content }) => content).join(' ')
    }
    expect(await page('limit=2')).toBe('m6 m5')
    expect(await page(`limit=2&before=${ids[3]}`)).toBe('m2 m1')
    expect(await page(`limit=2&after=${ids[3]}`)).toBe('m5 m4')
    expect(await page(`limit=3&around=${ids[3]}`)).toBe('m4 m3 m2')
    expect(await request(discord, 'GET', `/channels/${channel.id}/messages?limit=101`)).toMatchObject({
      status: 400,
    })
  })
})

describe('commands', () => {
  const register = (body: unknown) =>
    request(discord, 'PUT', `/applications/${discord.mainBot.id}/commands`, body)
  const option = (name: string, rest: object = {}) => ({ type: 3, name, description: 'x', ...rest })

  test.each([
    ['an upper-case name', [{ name: 'Sandbox', description: 'x' }]],
    ['no description', [{ name: 'sandbox' }]],
    [
      'a name twice',
      [
        { name: 'a', description: 'x' },
        { name: 'a', description: 'x' },
      ],
    ],
    [
      '26 options',
      [{ name: 'a', description: 'x', options: Array.from({ length: 26 }, (_, i) => option(`o${i}`)) }],
    ],
    [
      'a required option last',
      [{ name: 'a', description: 'x', options: [option('a'), option('b', { required: true })] }],
    ],
    ['26 choices', [{ name: 'a', description: 'x', options: [option('a', { choices: choices(26) })] }]],
    ['an object instead of a list', { name: 'a', description: 'x' }],
  ])('%s is refused', async (_, body) => {
    expect(await register(body)).toMatchObject({ status: 400, body: { code: 50035 } })
  })
})

describe('interactions', () => {
  let client: Client<true>
  let ada: TwinUser
  /** The interaction that the bot has received last. */
  let received: Promise<Interaction>

  beforeEach(async () => {
    client = await login(discord)
    await client.application.commands.set([
      {
        name: 'go',
        description: 'x',
        options: [{ type: 3, name: 'what', description: 'x', autocomplete: true }],
      },
    ])
    received = new Promise((resolve) => client.once('interactionCreate', resolve))
    ada = channel.user('Ada')
  })

  afterEach(() => client.destroy())

  const callback = ({ id, token }: Interaction, body: object) =>
    request(discord, 'POST', `/interactions/${id}/${token}/callback`, body)

  test('an acknowledgement after 3 seconds comes too late', async () => {
    const run = ada.runSlashCommand('go')
    const outcome = expect(run).rejects.toThrow(
      'The application did not respond to /go of Ada within 3000 ms',
    )
    const interaction = await received
    discord.clock.advance(3001)
    await outcome
    expect(await callback(interaction, { type: 5 })).toMatchObject({ status: 404, body: { code: 10062 } })
    expect(channel.messages).toEqual([])
  })

  test('the second acknowledgement is refused', async () => {
    const run = ada.runSlashCommand('go')
    const interaction = await received
    if (!interaction.isChatInputCommand()) throw new Error('not a command')
    await interaction.deferReply()
    expect(await callback(interaction, { type: 5 })).toMatchObject({ status: 400, body: { code: 40060 } })
    expect((await run).acknowledgement).toBe('deferredMessage')
  })

  test('a token is valid for 15 minutes', async () => {
    const run = ada.runSlashCommand('go')
    const interaction = await received
    if (!interaction.isChatInputCommand()) throw new Error('not a command')
    await interaction.deferReply()
    await run
    discord.clock.advance(14 * 60_000)
    await interaction.editReply('in time')
    discord.clock.advance(2 * 60_000)
    await expect(interaction.editReply('late')).rejects.toMatchObject({ code: 50027, status: 401 })
    await expect(interaction.followUp('late')).rejects.toMatchObject({ code: 50027 })
    expect(channel.read()).toBe('# general\nsandkasten: in time')
    // The bot's own token is not affected.
    await client.guilds.fetch()
  })

  test('a follow-up before the acknowledgement finds no webhook', async () => {
    const run = ada.runSlashCommand('go')
    const { token } = await received
    const answer = await request(discord, 'POST', `/webhooks/${discord.mainBot.id}/${token}`, {
      content: 'x',
    })
    expect(answer).toMatchObject({ status: 404, body: { code: 10015 } })
    await callback(await received, { type: 5 })
    await run
  })

  test('autocomplete offers 25 choices of 100 characters', async () => {
    const typing = ada.autocomplete('go', 'what', 'x')
    const interaction = await received
    const offer = (list: object[]) => callback(interaction, { type: 8, data: { choices: list } })
    expect(await offer(choices(26))).toMatchObject({ status: 400, body: { code: 50035 } })
    expect(await offer([{ name: 'x', value: 'x'.repeat(101) }])).toMatchObject({ status: 400 })
    expect(await offer(choices(25))).toMatchObject({ status: 204 })
    expect(await typing).toHaveLength(25)
  })

  test('a modal has 5 inputs and cannot answer a modal', async () => {
    const run = ada.runSlashCommand('go')
    const interaction = await received
    const open = (count: number) =>
      callback(interaction, { type: 9, data: { custom_id: 'm', title: 'M', components: inputs(count) } })
    expect(await open(6)).toMatchObject({ status: 400, body: { code: 50035 } })
    expect(await open(5)).toMatchObject({ status: 204 })
    await run
    await expect(ada.submitModal({ i0: 'x' })).rejects.toThrow('field "L1" is required')
    const again = new Promise<Interaction>((resolve) => client.once('interactionCreate', resolve))
    const submit = ada.submitModal({ i0: '0', i1: '1', i2: '2', i3: '3', L4: '4' })
    expect(
      await callback(await again, { type: 9, data: { custom_id: 'm', title: 'M', components: inputs(1) } }),
    ).toMatchObject({ status: 400 })
    expect(await callback(await again, { type: 7, data: { content: 'x' } })).toMatchObject({ status: 400 })
    await callback(await again, { type: 4, data: { content: 'done' } })
    expect(String((await submit).reply)).toBe('sandkasten: done')
  })
})

function row(...components: object[]) {
  return { type: 1, components }
}

function button(id: string) {
  return { type: 2, style: 1, label: id.slice(0, 80), custom_id: id }
}

function select(count: number) {
  const options = Array.from({ length: count }, (_, i) => ({ label: `o${i}`, value: `o${i}` }))
  return { type: 3, custom_id: 's', options }
}

function choices(count: number) {
  return Array.from({ length: count }, (_, i) => ({ name: `c${i}`, value: `c${i}` }))
}

function inputs(count: number) {
  return Array.from({ length: count }, (_, i) =>
    row({ type: 4, custom_id: `i${i}`, label: `L${i}`, style: 1 }),
  )
}
