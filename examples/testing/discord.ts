import { startTwin } from '@sandkasten/discord/testing'
import { Client, GatewayIntentBits } from 'discord.js'

await using twin = await startTwin()
const channel = twin.guild().channel('general')

// Any bot on discord.js: only the address differs.
const { Guilds, GuildMessages, MessageContent } = GatewayIntentBits
const bot = new Client({
  intents: [Guilds, GuildMessages, MessageContent],
  rest: { api: twin.api, version: '10' },
})
bot.on('messageCreate', (message) => {
  if (!message.author.bot) void message.reply(`You said: ${message.content}`)
})
await bot.login(twin.token)
await twin.waitForBot()

await channel.user('Maria').say('hello')
await channel.waitForMessage(/You said/)
console.log(channel.transcript())
await bot.destroy()
