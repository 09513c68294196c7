import {
  ActionRowBuilder,
  ButtonBuilder,
  ButtonStyle,
  type ChatInputCommandInteraction,
  type Client,
  Events,
  type Interaction,
  LabelBuilder,
  MessageFlags,
  ModalBuilder,
  StringSelectMenuBuilder,
  type TextChannel,
  TextInputBuilder,
  TextInputStyle,
  UserSelectMenuBuilder,
} from 'discord.js'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startTwin, type Twin, type TwinChannel, type TwinUser } from './index.ts'
import { login } from './testing/client.ts'

let discord: Twin
let channel: TwinChannel
let ada: TwinUser
let client: Client<true>
let failures: unknown[]
const warnings: Error[] = []
const note = (warning: Error) => void warnings.push(warning)

beforeEach(async () => {
  process.on('warning', note)
  discord = await startTwin()
  channel = discord.guild().channel('general')
  ada = channel.user('Ada')
  client = await login(discord)
  failures = []
  await client.application.commands.set([
    {
      name: 'sandbox',
      description: 'Start a sandbox',
      options: [
        { type: 3, name: 'sandbox', description: 'Which one', autocomplete: true },
        { type: 3, name: 'prompt', description: 'What to do' },
        { type: 11, name: 'file', description: 'A file' },
        { type: 6, name: 'user', description: 'A user' },
      ],
    },
    {
      name: 'box',
      description: 'Sandboxes',
      options: [
        {
          type: 1,
          name: 'stop',
          description: 'Stop',
          options: [{ type: 4, name: 'number', description: 'Which', required: true, maxValue: 9 }],
        },
      ],
    },
  ])
})

afterEach(async () => {
  await client.destroy()
  await discord.close()
  process.off('warning', note)
  expect(failures).toEqual([])
  expect(warnings).toEqual([])
})

/** Answers the next interactions, and reports what fails. */
function answer(run: (interaction: Interaction<'cached'>) => Promise<unknown>): void {
  client.on(Events.InteractionCreate, (interaction) => {
    run(interaction as Interaction<'cached'>).catch((error) => failures.push(error))
  })
}

function onCommand(run: (interaction: ChatInputCommandInteraction) => Promise<unknown>): void {
  answer(async (interaction) => interaction.isChatInputCommand() && (await run(interaction)))
}

const row = <T extends ButtonBuilder | StringSelectMenuBuilder | UserSelectMenuBuilder | TextInputBuilder>(
  ...parts: T[]
) => new ActionRowBuilder<T>().addComponents(parts)

const button = (id: string, label: string) =>
  new ButtonBuilder().setCustomId(id).setLabel(label).setStyle(ButtonStyle.Primary)

test('a whole conversation: autocomplete, deferred reply, thread, edits, files, reactions, archive', async () => {
  answer(async (interaction) => {
    if (interaction.isAutocomplete()) {
      const names = ['frog', 'toad'].filter((name) => name.startsWith(interaction.options.getFocused()))
      await interaction.respond(names.map((name) => ({ name, value: name })))
    }
    if (interaction.isChatInputCommand()) {
      await interaction.deferReply()
      const prompt = interaction.options.getString('prompt')
      const reply = await interaction.editReply({
        content: `works on ${prompt}`,
        components: [row(button('stop', 'Stop'))],
      })
      const thread = await reply.startThread({ name: 'work' })
      await thread.members.add(interaction.user.id)
      await thread.sendTyping()
      const message = await thread.send({ content: 'first', nonce: '1', enforceNonce: true })
      await message.edit({ content: 'final', files: [{ attachment: Buffer.from('hello'), name: 'a.txt' }] })
      await message.react('✅')
    }
    if (interaction.isButton()) await interaction.update({ content: 'stopped', components: [] })
  })
  client.on('messageCreate', async (message) => {
    if (message.author.bot) return
    const text = await (await fetch(message.attachments.first()!.url)).text()
    await message.reply({ content: `you sent ${text}`, allowedMentions: { repliedUser: false } })
    if (message.channel.isThread()) await message.channel.setArchived(true)
  })
  expect(await ada.autocomplete('sandbox', 'sandbox', 'fro')).toEqual([{ name: 'frog', value: 'frog' }])
  const reply = await (await ada.runSlashCommand('sandbox', { prompt: 'tests' })).waitForReply()
  const thread = await channel.waitForThread('work')
  await thread.waitForMessage(/reactions/)
  expect(new TextDecoder().decode(await thread.messages[1]!.download('a.txt'))).toBe('hello')
  await ada.clickButton(reply, 'Stop')
  await ada.in(thread).say('see', { files: [{ name: 'b.txt', bytes: new TextEncoder().encode('a file') }] })
  await thread.waitUntil(({ isArchived }) => isArchived)
  expect(channel.read()).toMatchInlineSnapshot(`
    "# general
    sandkasten: stopped
      thread: work"
  `)
  expect(thread.transcript()).toMatchInlineSnapshot(`
    "# work (archived)
    sandkasten: stopped
    sandkasten: final
      file: a.txt (5 bytes)
      reactions: ✅ 1
    Ada: see
      file: b.txt (6 bytes)
    sandkasten: you sent a file"
  `)
})

test('a modal with rows: prefilled, checked, answered for one user only', async () => {
  answer(async (interaction) => {
    if (interaction.isChatInputCommand()) {
      const key = new TextInputBuilder()
        .setCustomId('key')
        .setLabel('Key')
        .setStyle(TextInputStyle.Short)
        .setMaxLength(10)
      const url = new TextInputBuilder()
        .setCustomId('url')
        .setLabel('URL')
        .setStyle(TextInputStyle.Short)
        .setValue('http://x')
      await interaction.showModal(
        new ModalBuilder().setCustomId('m').setTitle('Setup').addComponents(row(key), row(url)),
      )
    }
    if (interaction.isModalSubmit()) {
      const { fields } = interaction
      const content = `${fields.getTextInputValue('key').length} ${fields.getTextInputValue('url')}`
      await interaction.reply({ content, flags: MessageFlags.Ephemeral })
    }
  })
  const opened = await ada.runSlashCommand('sandbox')
  expect(opened.modal?.title).toBe('Setup')
  await expect(ada.submitModal({ Kez: 'x' })).rejects.toThrow()
  await expect(ada.submitModal({ Key: 'x'.repeat(11) })).rejects.toThrow('field "Key" takes 10 characters')
  const submitted = await ada.submitModal({ Key: 'secret' })
  expect(submitted.reply!.isEphemeral).toBe(true)
  expect(channel.read()).toBe('# general\nsandkasten (only Ada sees this): 6 http://x')
  await expect(ada.submitModal({})).rejects.toThrow('Ada sees no modal')
})

test('a modal with labels and a select, opened from a button, updates its message', async () => {
  onCommand((interaction) =>
    interaction.reply({ content: 'Ready', components: [row(button('open', 'Open'))] }),
  )
  answer(async (interaction) => {
    if (interaction.isButton()) {
      const size = new StringSelectMenuBuilder()
        .setCustomId('size')
        .addOptions({ label: 'Small', value: 's' }, { label: 'Large', value: 'l' })
      const name = new TextInputBuilder().setCustomId('name').setStyle(TextInputStyle.Short)
      await interaction.showModal(
        new ModalBuilder()
          .setCustomId('m')
          .setTitle('Choose')
          .addLabelComponents(
            new LabelBuilder().setLabel('Size').setStringSelectMenuComponent(size),
            new LabelBuilder().setLabel('Name').setTextInputComponent(name),
          ),
      )
    }
    if (interaction.isModalSubmit() && interaction.isFromMessage()) {
      const size = interaction.fields.getStringSelectValues('size').join()
      await interaction.update(`${interaction.fields.getTextInputValue('name')}: ${size}`)
    }
  })
  const { reply } = await ada.runSlashCommand('sandbox')
  await ada.clickButton(reply!, 'Open')
  await ada.submitModal({ Size: ['l'], Name: 'frog' })
  expect(channel.read()).toBe('# general\nsandkasten: frog: l\n  [Open]')
})

test('selects carry the chosen values, and refuse what they do not offer', async () => {
  const menu = () =>
    new StringSelectMenuBuilder()
      .setCustomId('s')
      .setPlaceholder('Animals')
      .setMaxValues(2)
      .addOptions({ label: 'Frog', value: 'f' }, { label: 'Toad', value: 't' }, { label: 'Newt', value: 'n' })
  onCommand((interaction) =>
    interaction.reply({
      content: 'x',
      components: [row(menu()), row(new UserSelectMenuBuilder().setCustomId('u'))],
    }),
  )
  answer(async (interaction) => {
    if (interaction.isStringSelectMenu()) await interaction.update({ content: interaction.values.join() })
    if (interaction.isUserSelectMenu()) {
      await interaction.deferUpdate()
      await interaction.followUp(`you chose ${interaction.users.map(({ username }) => username)}`)
    }
  })
  const reply = (await ada.runSlashCommand('sandbox')).reply!
  await ada.select(reply, ['Frog', 't'], 'Animals')
  await expect(ada.select(reply, 'Cat', 's')).rejects.toThrow('the select has no option "Cat"')
  await expect(ada.select(reply, ['f', 't', 'n'], 's')).rejects.toThrow('the select takes 1 to 2 values')
  const chosen = await ada.select(reply, channel.user('Bob').id, 'u')
  await channel.waitForMessage('you chose')
  expect(chosen.acknowledgement).toBe('deferredUpdate')
  expect(channel.read()).toMatchInlineSnapshot(`
    "# general
    sandkasten: f,t
      {Animals: Frog | Toad | Newt}
      {select}
    sandkasten: you chose Bob"
  `)
})

test('replies: withResponse, follow-ups, ephemeral ones, and their deletion', async () => {
  onCommand(async (interaction) => {
    const { resource } = await interaction.reply({ content: 'one', withResponse: true })
    await resource!.message!.edit('one, edited')
    const second = await interaction.followUp({ content: 'two', flags: MessageFlags.Ephemeral })
    await interaction.webhook.editMessage(second.id, 'two, edited')
    const third = await interaction.followUp({
      content: 'three',
      files: [{ attachment: Buffer.from('x'), name: 'x.txt' }],
    })
    expect((await interaction.fetchReply()).content).toBe('one, edited')
    await interaction.deleteReply(third)
    await interaction.followUp('four')
  })
  const interaction = await ada.runSlashCommand('sandbox')
  await channel.waitForMessage('four')
  expect(interaction.messages.map(({ content }) => content)).toEqual(['one, edited', 'two, edited', 'four'])
  expect(channel.read()).toBe(
    '# general\nsandkasten: one, edited\nsandkasten (only Ada sees this): two, edited\nsandkasten: four',
  )
})

test('an ephemeral message is out of reach for channel routes, and its buttons work for its user', async () => {
  onCommand(async (interaction) => {
    await interaction.deferReply({ flags: MessageFlags.Ephemeral })
    const reply = await interaction.editReply({ content: 'x', components: [row(button('b', 'Go'))] })
    const general = client.channels.cache.get(channel.id) as TextChannel
    await expect(general.messages.fetch({ message: reply.id, force: true })).rejects.toMatchObject({
      code: 10008,
    })
  })
  answer(async (interaction) => {
    if (!interaction.isButton()) return
    await interaction.deferUpdate()
    await interaction.deleteReply()
  })
  const reply = await (await ada.runSlashCommand('sandbox')).waitForReply()
  await expect(channel.user('Bob').clickButton(reply, 'Go')).rejects.toThrow('Bob does not see this message')
  await ada.clickButton(reply, 'b')
  await discord.waitFor('the deletion', () => reply.isDeleted)
})

test('options of a command: files, users, subcommands, and what the command does not allow', async () => {
  onCommand(async (interaction) => {
    if (interaction.commandName === 'box') {
      return await interaction.reply(
        `${interaction.options.getSubcommand()} ${interaction.options.getInteger('number')}`,
      )
    }
    const file = interaction.options.getAttachment('file')!
    const text = await (await fetch(file.url)).text()
    await interaction.reply(`${file.name}: ${text}; ${interaction.options.getUser('user')}`)
  })
  const bytes = new TextEncoder().encode('hello')
  await ada.runSlashCommand('sandbox', { file: { name: 'a b.txt', bytes }, user: channel.user('Bob') })
  await ada.runSlashCommand('box stop', { number: 3 })
  expect(channel.read()).toBe('# general\nsandkasten: a_b.txt: hello; @Bob\nsandkasten: stop 3')
  await expect(ada.runSlashCommand('box')).rejects.toThrow('/box needs a subcommand: stop')
  await expect(ada.runSlashCommand('box stop')).rejects.toThrow('/box needs the option "number"')
  await expect(ada.runSlashCommand('box stop', { number: 10 })).rejects.toThrow(
    'option "number" is too large',
  )
  await expect(ada.runSlashCommand('sandbox', { wrong: 'x' })).rejects.toThrow(
    '/sandbox has no option "wrong"',
  )
  await expect(ada.runSlashCommand('nothing')).rejects.toThrow(
    'no bot in "Workshop" has the command /nothing',
  )
})

test('two bots with the same command: the user chooses, and buttons go to their bot', async () => {
  const other = discord.bot('other')
  discord.guild().invite(other)
  const second = await login(discord, { bot: other })
  await second.guilds.cache.first()!.commands.set([{ name: 'sandbox', description: 'x' }])
  for (const each of [client, second]) {
    each.on('interactionCreate', async (interaction) => {
      if (interaction.isChatInputCommand())
        await interaction.reply({ content: 'x', components: [row(button('b', 'Go'))] })
      if (interaction.isButton()) await interaction.update(`clicked ${each.user.username}`)
    })
  }
  await ada.runSlashCommand('sandbox', {}, { bot: discord.mainBot })
  const { reply } = await ada.runSlashCommand('sandbox', {}, { bot: other })
  await ada.clickButton(reply!, 'Go')
  expect(channel.read()).toBe('# general\nsandkasten: x\n  [Go]\nother: clicked other\n  [Go]')
  await second.destroy()
})

test('users reply, edit, delete and react, and the bot hears it', async () => {
  const heard: string[] = []
  client.on('messageUpdate', (_, message) => void heard.push(`edit ${message.content}`))
  client.on('messageDelete', (message) => void heard.push(`delete ${message.content}`))
  client.on('messageReactionAdd', ({ emoji }, user) => void heard.push(`${emoji.name} ${user.username}`))
  client.on('messageReactionRemove', ({ emoji }) => void heard.push(`no ${emoji.name}`))
  const said = await ada.say('hello')
  const reply = await channel.user('Bob').say('hi', { replyTo: said })
  expect(reply.pings).toEqual(['Ada'])
  ada.edit(said, 'hello, all')
  ada.react(said, '🎉')
  ada.unreact(said, '🎉')
  ada.deleteMessage(said)
  await expect.poll(() => heard).toEqual(['edit hello, all', '🎉 Ada', 'no 🎉', 'delete hello, all'])
  expect(channel.read()).toBe('# general\nBob: hi')
  expect(() => ada.deleteMessage(reply)).toThrow('the message is not from Ada')
})

test('the transcript shows embeds, links, disabled buttons, mentions and new components', async () => {
  const general = client.channels.cache.get(channel.id) as TextChannel
  await general.send({
    content: `<@${ada.id}> in <#${channel.id}> at <t:1:R>\nsecond line`,
    embeds: [
      { title: 'Title', description: 'a\nb', fields: [{ name: 'n', value: 'v' }], footer: { text: 'end' } },
    ],
    components: [
      row(
        button('a', 'A').setDisabled(true),
        new ButtonBuilder().setURL(`${discord.api}/x`).setLabel('Link').setStyle(ButtonStyle.Link),
      ),
      row(
        new StringSelectMenuBuilder()
          .setCustomId('s')
          .setPlaceholder('Pick')
          .addOptions({ label: 'L', value: 'v', default: true }),
      ),
    ],
  })
  await general.send({
    flags: MessageFlags.IsComponentsV2,
    components: [{ type: 17, components: [{ type: 10, content: 'boxed' }] }],
  })
  expect(channel.read()).toMatchInlineSnapshot(`
    "# general
    sandkasten: @Ada in #general at (time)
      second line
      | Title
      | a
      | b
      | n: v
      | — end
      [A (disabled)] [Link http://127.0.0.1/api/x]
      {Pick: *L}
    sandkasten:
      boxed"
  `)
})
