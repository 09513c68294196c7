/** `npm run bench -- discord`: one bot with many threads, on the digital twin of Discord. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { startTwin } from '@sandkasten/discord/testing'
import { EngineProvider } from '@sandkasten/engine'
import { startModelServer } from '../../packages/opencode/src/testing/model-server.ts'
import { type BotProcess, startProcess } from '../../test/discord/start-process.ts'
import type { Cleanup } from '../cleanup.ts'
import { crunMissing } from '../engine/subjects/crun.ts'
import { openWorkplace, type Workplace } from '../engine/workplace.ts'
import { sampleOf } from '../measure.ts'
import type { Report } from '../report.ts'
import { type Suite, type SuiteOptions, wanting } from '../suite.ts'
import { Conversations } from './conversations.ts'

const PARTS = [
  'command',
  'reaction',
  'reaction.p95',
  'burst',
  'answer',
  'lost',
  'doubled',
  'limited',
  'memory',
  'growth',
]
const SUBJECTS = ['scripted', 'opencode'] as const
const MIB = 1024 ** 2

export const discordSuite: Suite = {
  name: 'discord',
  about: 'one bot with 100 threads on the digital twin of Discord; with the real opencode as root',
  ids: () => SUBJECTS.flatMap((subject) => PARTS.map((part) => `${subject}.${part}`)),
  run,
}

interface Load {
  readonly threads: number
  readonly sandboxes: number
  readonly rounds: number
  /** Between the messages of one round. */
  readonly everyMs: number
}

async function run(report: Report, cleanup: Cleanup, options: SuiteOptions): Promise<void> {
  const wants = wanting(options)
  const place = openWorkplace(cleanup)
  const { quick } = options
  if (PARTS.some((part) => wants(`scripted.${part}`))) {
    report.heading('Agents that follow a script')
    const load = { threads: quick ? 20 : 100, sandboxes: quick ? 5 : 20, rounds: quick ? 2 : 6, everyMs: 100 }
    await measure({ report, place, subject: 'scripted', load })
  }
  if (!PARTS.some((part) => wants(`opencode.${part}`))) return
  const missing = crunMissing()
  if (missing !== undefined) return report.skip('opencode', missing)
  report.heading('opencode in sandboxes of the engine')
  const load = { threads: quick ? 2 : 6, sandboxes: quick ? 1 : 3, rounds: quick ? 1 : 3, everyMs: 1000 }
  await measure({ report, place, subject: 'opencode', load })
}

interface Measuring {
  readonly report: Report
  readonly place: Workplace
  readonly subject: (typeof SUBJECTS)[number]
  readonly load: Load
}

async function measure({ report, place, subject, load }: Measuring): Promise<void> {
  const { cleanup } = place
  const dataDir = join(place.folder, subject)
  mkdirSync(dataDir)
  const isReal = subject === 'opencode'
  const model = isReal ? await startModelServer(({ prompt }) => ({ text: `echo: ${prompt}` })) : undefined
  if (model) cleanup.add('the model', () => model.close())
  if (isReal) cleanup.add('the sandboxes', () => destroyAll(join(dataDir, 'engine')))
  const twin = await startTwin()
  cleanup.add('the twin of Discord', () => twin.close())
  const task = { dataDir, token: twin.token, api: twin.api, modelUrl: model?.url, workMs: 3000 }
  const bot = startProcess(task)
  cleanup.add('the bot', () => bot.kill())
  await bot.ready
  const id = (part: string) => `${subject}.${part}`
  report.limit(id('reaction.p95'), 1000)
  for (const part of ['lost', 'doubled']) report.limit(id(part), 0)
  report.limit(id('limited'), 1)

  const conversations = new Conversations(twin)
  report.add(id('command'), await conversations.start(load.threads, load.sandboxes))
  await conversations.round(load.everyMs)
  const before = await memoryOf(bot)
  const counted = conversations.messages
  const reactions: number[] = []
  const answers: number[] = []
  for (let round = 0; round < load.rounds; round += 1) {
    const times = await conversations.round(load.everyMs)
    reactions.push(...times.reactions)
    answers.push(...times.answers)
  }
  const after = await memoryOf(bot)
  report.add(id('reaction'), reactions)
  report.add(id('reaction.p95'), [sampleOf(reactions).p95])
  report.add(id('answer'), answers)
  report.add(id('burst'), (await conversations.round(0)).reactions)
  const { lost, doubled } = conversations.count()
  report.add(id('lost'), [lost], 'messages')
  report.add(id('doubled'), [doubled], 'messages')
  report.add(id('limited'), [twin.counters.longestRateLimitedRun], 'in a row')
  report.add(id('memory'), [before.rss / MIB, after.rss / MIB], 'MiB')
  const growth = (after.heapUsed + after.external - before.heapUsed - before.external) / MIB
  report.add(id('growth'), [(growth * 100) / (conversations.messages - load.threads - counted)], 'MiB/100')
  for (const part of ['reaction.p95', 'lost', 'doubled', 'limited']) report.recall(id(part))
}

/** Without garbage. */
async function memoryOf({ child }: BotProcess): Promise<NodeJS.MemoryUsage> {
  const { promise, resolve } = Promise.withResolvers<NodeJS.MemoryUsage>()
  child.once('message', (message) => resolve((message as { memory: NodeJS.MemoryUsage }).memory))
  child.send('memory')
  return await promise
}

async function destroyAll(root: string): Promise<void> {
  const provider = new EngineProvider({ root, prepareNext: false })
  for (const { id } of await provider.list()) await provider.destroy(id)
  await provider.close()
}
