import { describe, expect, it } from 'vitest'
import { type Script, text } from '../testing/scripted-agents.ts'
import { manager, openStage } from '../testing/start-bot.ts'

async function openThread(prompt: string, script?: Script) {
  const stage = await openStage()
  if (script) stage.agents.script = script
  const bot = await stage.startBot()
  const user = manager(stage.channel)
  await user.runSlashCommand('sandbox', { prompt })
  const thread = await stage.channel.waitForThread()
  return { ...stage, bot, thread, maria: user.in(thread) }
}

const question = {
  kind: 'question' as const,
  text: 'Which **one**? @everyone\n-# ✓ forged',
  choices: [
    { value: 'red', label: 'Red', description: 'warm' },
    { value: 'b'.repeat(200), label: 'Blue' },
  ],
  isMultiple: false,
  allowsText: true,
}

describe('questions of the agent', () => {
  it('are answered by buttons', async () => {
    const { thread, maria, twin } = await openThread('ask', async ({ ask, show }) => {
      show([text(JSON.stringify(await ask(question)))])
    })
    const asked = await thread.waitForMessage(/The agent asks/)
    expect(asked.content).not.toMatch(/@everyone|\n-# ✓/)
    expect(asked.pings).toEqual([])
    await maria.clickButton(asked, 'Blue')
    await thread.waitForTranscript(`"choices":["${'b'.repeat(200)}"]`)
    await twin.waitFor('the buttons to go', () => asked.components.length === 0)
    await thread.waitForTranscript('✓')
  })

  it('are answered in words, once', async () => {
    const { thread, maria } = await openThread('ask', async ({ ask, show }) => {
      show([text(JSON.stringify(await ask(question)))])
    })
    const asked = await thread.waitForMessage(/The agent asks/)
    await maria.clickButton(asked, 'Answer in words')
    await maria.submitModal({ text: 'green, please' })
    await thread.waitForTranscript('green, please')
  })

  it('with many choices are selects, and permissions can be refused', async () => {
    const choices = Array.from({ length: 30 }, (_, at) => ({ value: `v${at}`, label: `Choice ${at}` }))
    const { thread, maria } = await openThread('ask', async ({ ask, show }) => {
      const first = await ask({ ...question, choices, isMultiple: true, allowsText: false })
      const second = await ask({ ...question, kind: 'permission', text: 'rm -rf /' })
      show([text(JSON.stringify([first, second]))])
    })
    const asked = await thread.waitForMessage(/The agent asks$/m)
    await maria.select(asked, ['Choice 3', 'Choice 24'])
    const permission = await thread.waitForMessage(/asks for permission/)
    await maria.clickButton(permission, 'Reject')
    await thread.waitForTranscript('[{"choices":["v3","v24"]},{"rejected":true}]')
  })
})

describe('an answer', () => {
  it('is stopped by its button, and messages meanwhile wait', async () => {
    const { thread, maria, agents } = await openThread('long work', async ({ message, show, signal }) => {
      show([text(`working on ${message.text}`)])
      if (message.text === 'long work')
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
    })
    const working = await thread.waitForMessage(/working on long work/)
    await thread.waitForTranscript('[Stop]')
    await maria.clickButton(working, 'Stop')
    await thread.waitForTranscript('■ aborted')
    await maria.say('next')
    await thread.waitForTranscript(/working on next\n.*✓/)
    expect(agents.prompts).toEqual(['long work', 'next'])
  })

  it('has files of users in the sandbox, and shows files of the agent', async () => {
    const { thread, maria, agents } = await openThread('begin', async ({ message, show, services }) => {
      if (message.files.length > 0)
        await services.sendFile('call', { name: 'chart.png', bytes: new Uint8Array([1, 2, 3]) })
      show([text(`files: ${message.files.length}`)])
    })
    await thread.waitForTranscript('✓')
    await maria.say('see this', { files: [{ name: 'data.csv', bytes: Buffer.from('a,b') }] as never })
    const message = await thread.waitForMessage((one) =>
      one.attachments.some(({ filename }) => filename === 'chart.png'),
    )
    await thread.waitForTranscript(/files: 1\n.*✓|files: 1[\s\S]*✓/)
    expect(message.author).toBe('sandkasten')
    expect(agents.prompts).toEqual(['begin', 'see this'])
  })

  it('of hostile text has no pings and ends nothing', async () => {
    const hostile = '@everyone <@1> ```\n-# ✓ forged · local\n``` \n-# ✓ forged · local\n`````\n||x||'
    const { thread, twin } = await openThread('begin', async ({ show }) => show([text(hostile)]))
    await thread.waitForTranscript(/✓ [a-z]+-[a-z]+ · local/)
    for (const message of thread.messages.filter(({ content }) => content !== '')) {
      expect(message.pings).toEqual([])
      expect(message.embeds).toEqual([])
    }
    expect(thread.messages.flatMap(({ content }) => content.match(/^-# ✓/gm) ?? [])).toHaveLength(1 + 1)
    expect(twin.counters.longestRateLimitedRun).toBeLessThan(2)
  })

  it('of a burst is complete, without two refusals in a row', async () => {
    const words = Array.from({ length: 600 }, (_, at) => `word${at}`)
    const { thread, twin } = await openThread('burst', async ({ show }) => {
      for (let at = 1; at <= words.length; at += 1) {
        show([text(words.slice(0, at).join(' '))])
        if (at % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 20))
      }
    })
    await thread.waitForTranscript('✓', { timeoutMs: 40_000 })
    const answer = thread.messages.filter(({ content }) => content.includes('word'))
    const shown = answer.flatMap(({ content }) => content.match(/word\d+/g) ?? [])
    expect(shown).toEqual(words)
    expect(twin.counters.longestRateLimitedRun).toBeLessThan(2)
  })
})
