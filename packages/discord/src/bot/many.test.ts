import { expect, it } from 'vitest'
import { text } from '../testing/scripted-agents.ts'
import { openStage } from '../testing/start-bot.ts'

it('40 threads at once lose no message, double none, and stay within Discord’s limits', async () => {
  const { startBot, channel, agents, registry, twin } = await openStage({ pace: { editEveryMs: 1200 } })
  const { appId } = await startBot()
  const scope = { appId, guildId: channel.guildId, channelId: channel.id }
  for (let at = 0; at < 10; at += 1) await registry.in(scope).create({ name: `box-${at}` })
  agents.script = async ({ message, show }) => {
    for (let part = 1; part <= 5; part += 1) {
      show([text(`part ${part} of ${message.text}`)])
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    show([text(`answer to ${message.text}`)])
  }
  const permissions = ['ManageGuild', 'ViewChannel', 'SendMessages', 'SendMessagesInThreads'] as const
  const all = Array.from({ length: 40 }, (_, at) => at)
  const user = (at: number) => channel.user(`user-${at % 4}`, { permissions })
  // The twin fails the test if one of them is not acknowledged within 3 seconds.
  await Promise.all(
    all.map((at) => user(at).runSlashCommand('sandbox', { sandbox: `box-${at % 10}`, prompt: `task ${at}` })),
  )
  const patience = { timeoutMs: 50_000 }
  const threads = await Promise.all(all.map((at) => channel.waitForThread(`task ${at}`, patience)))
  await Promise.all(threads.map((thread, at) => user(at).in(thread).say(`second ${at}`)))
  await Promise.all(threads.map((thread, at) => thread.waitForTranscript(`answer to second ${at}`, patience)))
  for (const [at, thread] of threads.entries())
    expect(thread.messages.flatMap(({ content }) => content.match(/^answer to .*$/gm) ?? [])).toEqual([
      `answer to task ${at}`,
      `answer to second ${at}`,
    ])
  expect(agents.prompts).toHaveLength(80)
  // On a busy machine a few requests arrive together.
  const refused = Object.values(twin.counters.rateLimited).reduce((sum, count) => sum + count, 0)
  expect(refused).toBeLessThan(20)
})
