import {
  ActionRowBuilder,
  ButtonBuilder,
  ButtonStyle,
  Client,
  GatewayIntentBits,
  MessageFlags,
  ModalBuilder,
  TextInputBuilder,
  TextInputStyle,
} from 'discord.js'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startTwin, type Twin } from './index.ts'

let discord: Twin
let client: Client<true>

beforeEach(async () => {
  discord = await startTwin()
  discord.guild()
  client = new Client({
    intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMessages, GatewayIntentBits.MessageContent],
    rest: { api: discord.api, version: '10' },
  })
  const ready = new Promise((resolve) => client.once('clientReady', resolve))
  await client.login(discord.token)
  await ready
})

afterEach(async () => {
  await client.destroy()
  await discord.close()
})

test('a command with autocomplete, a modal, buttons, a thread and edits', async () => {
  await client.application.commands.set([
    {
      name: 'sandbox',
      description: 'Start a sandbox',
      options: [
        { type: 3, name: 'sandbox', description: 'Which one', autocomplete: true },
        { type: 3, name: 'prompt', description: 'What to do' },
      ],
    },
    { name: 'setup', description: 'Set up' },
  ])
  client.on('interactionCreate', async (interaction) => {
    if (interaction.isAutocomplete()) {
      const typed = interaction.options.getFocused()
      await interaction.respond(
        ['frog', 'toad'].filter((name) => name.startsWith(typed)).map((name) => ({ name, value: name })),
      )
    } else if (interaction.isChatInputCommand() && interaction.commandName === 'sandbox') {
      await interaction.deferReply()
      const button = new ButtonBuilder().setCustomId('stop').setLabel('Stop').setStyle(ButtonStyle.Danger)
      const reply = await interaction.editReply({
        content: `working on ${interaction.options.getString('prompt')}`,
        components: [new ActionRowBuilder<ButtonBuilder>().addComponents(button)],
      })
      const thread = await reply.startThread({ name: 'work' })
      const message = await thread.send({ content: 'first', nonce: '1', enforceNonce: true })
      await message.edit({ content: 'final', files: [{ attachment: Buffer.from('hello'), name: 'a.txt' }] })
    } else if (interaction.isChatInputCommand()) {
      const input = new TextInputBuilder().setCustomId('key').setLabel('Key').setStyle(TextInputStyle.Short)
      await interaction.showModal(
        new ModalBuilder()
          .setCustomId('m')
          .setTitle('Setup')
          .addComponents(new ActionRowBuilder<TextInputBuilder>().addComponents(input)),
      )
    } else if (interaction.isModalSubmit()) {
      await interaction.reply({
        content: `got ${interaction.fields.getTextInputValue('key').length} characters`,
        flags: MessageFlags.Ephemeral,
      })
    } else if (interaction.isButton()) {
      await interaction.update({ content: 'stopped', components: [] })
    }
  })
  const channel = discord.guild().channel('general')
  const ada = channel.user('Ada')
  expect(await ada.autocomplete('sandbox', 'sandbox', 'fro')).toEqual([{ name: 'frog', value: 'frog' }])
  const interaction = await ada.runSlashCommand('sandbox', { prompt: 'tests' })
  const reply = await interaction.waitForReply()
  const thread = await channel.waitForThread('work')
  const message = await thread.waitForMessage('final')
  expect(new TextDecoder().decode(await message.download('a.txt'))).toBe('hello')
  await ada.clickButton(reply, 'Stop')
  await ada.runSlashCommand('setup')
  await ada.submitModal({ Key: 'secret' })
  expect(channel.read()).toMatchInlineSnapshot(`
    "# general
    sandkasten: stopped
      thread: work
    sandkasten (only Ada sees this): got 6 characters"
  `)
  expect(thread.transcript()).toMatchInlineSnapshot(`
    "# work
    sandkasten: stopped
    sandkasten: final
      file: a.txt (5 bytes)"
  `)
})
