import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, it } from 'vitest'
import { text } from '../testing/scripted-agents.ts'
import { manager, openStage } from '../testing/start-bot.ts'

const page = path.resolve(import.meta.dirname, '../../../../docs/discord.md')
const block = /(?<=<!-- transcript -->\n````text\n)[\s\S]*?(?=````\n)/

it('docs/discord.md shows what the bot writes', async () => {
  const { startBot, channel, agents, registry, twin } = await openStage()
  const { appId } = await startBot()
  const scope = { appId, guildId: twin.guild('Workshop').id, channelId: channel.id }
  await registry.in(scope).create({ name: 'my-frontend' })
  agents.script = async ({ message, show, ask }) => {
    const steps = [
      { type: 'tool', id: '1', tool: 'read', status: 'completed', title: 'src/login.ts' },
      { type: 'tool', id: '2', tool: 'bash', status: 'completed', title: 'npm test' },
    ] as const
    if (message.text === 'Fix the login test') {
      const end = 'The clock was mocked **after** the token was made. All 42 tests pass now.'
      const patch = '-  const token = sign(user)\n+  const token = sign(user, { now })\n'
      return show([
        text('I run the tests first.'),
        ...steps,
        { ...text(end), id: 'end' },
        { type: 'diff', id: 'd', patch },
      ])
    }
    const reply = await ask({
      kind: 'permission',
      text: 'Push the branch `fix-login`?',
      choices: [
        { value: 'once', label: 'Once' },
        { value: 'reject', label: 'Reject' },
      ],
      isMultiple: false,
      allowsText: false,
    })
    show([text('choices' in reply && reply.choices[0] === 'once' ? 'Pushed.' : 'I do not push.')])
  }
  const maria = manager(channel)
  await maria.runSlashCommand('sandbox', { sandbox: 'my-frontend', prompt: 'Fix the login test' })
  const thread = await channel.waitForThread()
  await thread.waitForTranscript('✓')
  await maria.in(thread).say('Good. Push it')
  const question = await thread.waitForMessage(/asks for permission/)
  await maria.in(thread).clickButton(question, 'Once')
  await thread.waitForTranscript(/Pushed\.\n.*✓/)
  await twin.waitFor('the question to be settled', () => question.components.length === 0)
  const shown = `${thread.transcript()}\n`.replaceAll(/\d+\.\d s$/gm, '21 s')
  const now = await readFile(page, 'utf8')
  const wanted = now.replace(block, shown)
  if (process.env.UPDATE_DOCS) await writeFile(page, wanted)
  expect(now, 'run: UPDATE_DOCS=1 npx vitest run packages/discord/src/bot/transcript.test.ts').toBe(wanted)
})
