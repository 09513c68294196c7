/**
 * Kills the bot with SIGKILL at random instants, and checks that users see no more than a delay. Discord (the twin), the
 * sandboxes and their agents live outside of the bot’s process, as they do in production.
 *
 * SANDKASTEN_DISCORD_KILLS=100 kills it a hundred times (default: 8), SANDKASTEN_OPENCODE_KILLS=20 also sets how often with
 * the real opencode in sandboxes of the engine (default: 3). SANDKASTEN_SEED repeats the instants of a run.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startTwin } from '@sandkasten/discord/testing'
import { EngineProvider } from '@sandkasten/engine'
import { openRegistry, type Scope } from '@sandkasten/registry'
import type { SandboxProvider } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { expect, it, onTestFinished } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { startModelServer } from '../../packages/opencode/src/testing/model-server.ts'
import { ScriptedAgents } from '../../packages/threads/src/testing/scripted-agents.ts'
import { random, seeds } from '../random.ts'
import { People } from './people.ts'
import { startProcess } from './start-process.ts'

const kills = Number(process.env.SANDKASTEN_DISCORD_KILLS ?? 8)
const opencodeKills = Number(process.env.SANDKASTEN_OPENCODE_KILLS ?? 3)
const missing = await isolationMissing()

it(`loses and doubles nothing when the bot is killed ${kills} times`, { timeout: 900_000 }, async () => {
  const { dataDir, texts } = await survive({ kills, mostAliveMs: 2000, open: localIn })
  const agents = new ScriptedAgents(path.join(dataDir, 'agents'))
  for (const [threadId, expected] of texts) {
    const history = agents.history(`ses_${threadId}`)
    expect(history.map(({ text }) => text)).toEqual(expected)
    expect(history.map(({ id }) => id)).toEqual(history.map(({ id }) => id).sort())
  }
})

it.skipIf(missing)(
  `loses and doubles nothing with opencode in sandboxes when the bot is killed ${opencodeKills} times${missing ?? ''}`,
  { timeout: 900_000 },
  async () => {
    const model = await startModelServer(({ prompt }) => ({ text: `echo: ${prompt}` }))
    onTestFinished(() => model.close())
    const open = (dataDir: string) => engineIn(dataDir)
    const { texts } = await survive({ kills: opencodeKills, mostAliveMs: 9000, open, modelUrl: model.url })
    const prompts = model.requests.map(({ prompt }) => prompt.match(/work-\d+\./)?.[0])
    for (const expected of texts.values())
      for (const text of expected) expect(prompts.filter((prompt) => prompt === text)).toEqual([text])
  },
)

interface Survival {
  readonly kills: number
  /** The bot lives between 0 and this long. */
  readonly mostAliveMs: number
  readonly modelUrl?: string
  open(dataDir: string): SandboxProvider & { close?(): Promise<void> }
}

/** Runs bots and kills them while people work. Returns the texts that each thread had to answer, in their order. */
async function survive({ kills: count, mostAliveMs, modelUrl, open }: Survival) {
  const instants = random(seeds(1)[0]!)
  const dataDir = await mkdtemp(path.join(tmpdir(), 'sk-kills-'))
  const twin = await startTwin()
  const provider = open(dataDir)
  onTestFinished(async () => {
    await twin.close()
    for (const { id } of await provider.list()) await provider.destroy(id)
    await provider.close?.()
    await rm(dataDir, { recursive: true, force: true, maxRetries: 5 })
  })
  const channel = twin.guild('Workshop').channel('general')
  const task = { dataDir, token: twin.token, api: twin.api, modelUrl }
  const log: string[] = []
  const start = () => {
    log.push('start')
    return startProcess(task, (line) => log.push(line))
  }
  const people = new People(twin, channel, instants)
  // Discord offers the commands when a bot has registered them.
  let bot = start()
  await bot.ready
  for (let kill = 0; kill < count; kill += 1) {
    const killed = bot
    // Every second process is killed while it works, the others also while they start.
    if (kill % 2 === 0) await bot.ready
    const aliveMs = instants.below(mostAliveMs)
    const ended = sleep(aliveMs).then(() => killed.kill())
    for (let deed = 0; deed < 1 + instants.below(3); deed += 1) {
      await sleep(instants.below(aliveMs / 3 + 1))
      await people.act()
    }
    await ended
    bot = start()
  }
  const waiting = async () => {
    const open: string[] = []
    for (const { text, thread } of people.asked) {
      const there = await Promise.race([thread, sleep(0, null)])
      if (there === undefined) continue
      if (there === null || !answersIn(there.messages, text)) open.push(text)
    }
    return open
  }
  try {
    await expect.poll(waiting, { timeout: 60_000, interval: 300 }).toEqual([])
    // Work that follows the answers.
    await sleep(1500)
  } catch (error) {
    const open = new Set(await waiting())
    const places = await Promise.all(
      people.asked.map(async (one) => open.has(one.text) && Promise.race([one.thread, sleep(0)])),
    )
    const transcripts = [...new Set(places)].flatMap((place) => (place ? [place.transcript()] : []))
    console.log([`seed ${instants.seed}`, ...log.slice(-30), ...transcripts].join('\n'))
    throw error
  } finally {
    await bot.kill()
  }

  const texts = new Map<string, string[]>()
  for (const { text, thread } of people.asked) {
    const there = await thread
    if (there) texts.set(there.id, [...(texts.get(there.id) ?? []), text])
  }
  for (const thread of channel.threads) {
    const posts = thread.messages.filter(({ author, content }) => author === 'sandkasten' && content !== '')
    const answers = posts.filter(({ content }) => content.includes('echo: '))
    // Each answer is one message with one end, in the order of the questions; nothing else was sent twice.
    expect(answers.map(({ content }) => content.match(/echo: (work-\d+\.)/)?.[1])).toEqual(
      texts.get(thread.id),
    )
    expect(answers.filter(({ content }) => !/\n-# ✓ /.test(content))).toEqual([])
    const others = posts.filter((post) => !answers.includes(post)).map(({ content }) => content)
    expect(others).toEqual([...new Set(others)])
    const nonces = posts.map(({ nonce }) => nonce)
    expect(nonces).toEqual([...new Set(nonces)])
  }
  expect(channel.threads.map(({ id }) => id).sort()).toEqual([...texts.keys()].sort())
  const sandboxes = await orphans(dataDir, provider, { appId: twin.mainBot.id, guildId: channel.guildId })
  const { repeatedNonces, longestRateLimitedRun, gateway } = twin.counters
  console.log(
    `${count} kills, seed ${instants.seed}: ${people.asked.length} texts in ${texts.size} threads, ${sandboxes} sandboxes; ` +
      `not heard ${people.unheard.length}, clear errors ${people.refused.length}, repeated nonces ${repeatedNonces}, ` +
      `429s in a row ${longestRateLimitedRun}, sessions ${gateway.identifies}, errors logged ${log.filter((line) => line.startsWith('error')).length}`,
  )
  for (const line of new Set(log.filter((one) => one.startsWith('error')))) console.log(line)
  return { dataDir, texts }
}

function answersIn(messages: ReadonlyArray<{ content: string }>, text: string): boolean {
  return messages.some(({ content }) => content.includes(`echo: ${text}`) && /\n-# ✓ /.test(content))
}

/** Compares the provider with the registry. Returns how many sandboxes there are. */
async function orphans(dataDir: string, provider: SandboxProvider, scope: Scope): Promise<number> {
  const kinds = [{ provider: provider.name, title: 'Sandboxes', fields: [], make: () => provider }]
  await using registry = await openRegistry({ dataDir, kinds, defaultProvider: provider.name, env: {} })
  await registry.doDueWork()
  const records = await registry.in(scope).list()
  const known = records.flatMap(({ providerSandboxId }) => providerSandboxId ?? [])
  expect((await provider.list()).map(({ sandboxId }) => sandboxId).sort()).toEqual(known.sort())
  // The row of a create that failed has no sandbox; the registry keeps some to tell why.
  const unused = records.filter(({ threads, status }) => threads.length !== 1 && status !== 'failed')
  expect(unused.map(({ name, status, label, threads }) => ({ name, status, label, threads }))).toEqual([])
  return records.length
}

function localIn(dataDir: string) {
  return new LocalProvider({ root: path.join(dataDir, 'local'), acceptNoIsolation: true })
}

function engineIn(dataDir: string) {
  return new EngineProvider({ root: path.join(dataDir, 'engine'), prepareNext: false })
}
