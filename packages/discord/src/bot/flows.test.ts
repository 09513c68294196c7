import { describe, expect, it } from 'vitest'
import { text, tool } from '../testing/scripted-agents.ts'
import { manager, openStage } from '../testing/start-bot.ts'

describe('flows', () => {
  it('1: a thread on a new sandbox', async () => {
    const { startBot, channel, agents } = await openStage()
    await startBot()
    agents.script = async ({ message, show }) => {
      show([text('I look at it.'), tool('npm test')])
      show([text('I look at it.'), tool('npm test'), { ...text(`Done: ${message.text}`), id: 'end' }])
    }
    const maria = manager(channel)
    await maria.runSlashCommand('sandbox', { provider: 'local', prompt: 'fix the bug' })
    const thread = await channel.waitForThread('fix the bug')
    await thread.waitForTranscript('Done: fix the bug')
    await thread.waitForTranscript('✓')
    console.log(channel.transcript())
    console.log(thread.transcript())
    await maria.in(thread).say('and now the docs')
    await thread.waitForTranscript('Done: and now the docs')
    expect(agents.prompts).toEqual(['fix the bug', 'and now the docs'])
    console.log(thread.transcript())
  })
})
