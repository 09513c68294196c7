import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { openRegistry } from '@sandkasten/registry'
import { expect, it } from 'vitest'
import { random, seeds } from '../../../test/random.ts'
import type { ChildTask, Delivered } from './testing/child.ts'
import { localIn, newFolder } from './testing/open.ts'
import { Transcript } from './testing/recording-chat.ts'
import { ScriptedAgents } from './testing/scripted-agents.ts'

const kills = Number(process.env.SANDKASTEN_THREADS_KILLS ?? 30)
const messagesPerThread = 5

const file = path.join(import.meta.dirname, 'testing/child.ts')

function startChild(task: ChildTask): ChildProcess {
  const args = ['--conditions=sandkasten-source', '--no-warnings', file, JSON.stringify(task)]
  return spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
}

it(`answers every message once, although the process is killed ${kills} times`, {
  timeout: 900_000,
}, async () => {
  const instants = random(seeds(1)[0]!)
  const dataDir = await newFolder()
  const said: Delivered[] = []
  const say = (thread: number) => {
    const threadId = `t${thread}`
    const number = said.filter((one) => one.threadId === threadId).length + 1
    const message = { threadId, id: `${threadId}-${number}`, text: `message ${number} of ${threadId}` }
    said.push(message)
    appendFileSync(path.join(dataDir, 'inbox.jsonl'), `${JSON.stringify(message)}\n`)
  }
  // New threads begin all the time, so that kills meet each stage of their sandboxes.
  for (let kill = 0; kill < kills; kill += 1) {
    for (let thread = Math.max(0, kill - messagesPerThread + 1); thread <= kill; thread += 1) say(thread)
    const child = startChild({ dataDir })
    await wait(300 + instants.below(900))
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  }
  const child = startChild({ dataDir })
  const isOver = () => {
    const { answers } = new Transcript(path.join(dataDir, 'chat.jsonl'))
    return answers.filter(({ isFinal }) => isFinal).length === said.length
  }
  try {
    await expect.poll(isOver, { timeout: 300_000, interval: 200 }).toBe(true)
    // Work that follows the answers, such as removing what earlier processes left.
    await wait(500)
  } finally {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }

  const transcript = new Transcript(path.join(dataDir, 'chat.jsonl'))
  const agents = new ScriptedAgents(path.join(dataDir, 'agents'))
  for (const [owner, nonces] of transcript.owners) expect([owner, nonces.size]).toEqual([owner, 1])
  for (const threadId of new Set(said.map((one) => one.threadId))) {
    const texts = said.filter((one) => one.threadId === threadId).map(({ text }) => text)
    expect(transcript.texts(threadId).sort()).toEqual(texts.map((text) => `done: echo: ${text}`).sort())
    const history = agents.history(`ses_${threadId}`)
    expect(history.map(({ text }) => text)).toEqual(texts)
    expect(history.map(({ id }) => id)).toEqual(history.map(({ id }) => id).sort())
    for (const { text, files } of history) expect(readFileSync(files[0]!, 'utf8')).toBe(`file of ${text}`)
  }

  const provider = localIn(dataDir)
  const kinds = [{ provider: 'local', title: 'Local', fields: [], make: () => provider }]
  await using registry = await openRegistry({ dataDir, kinds, defaultProvider: 'local', env: {} })
  await registry.doDueWork()
  const records = await registry.in({ appId: 'bot', guildId: 'g1' }).list()
  expect(records.map(({ threads }) => threads).sort()).toEqual(
    [...new Set(said.map((one) => one.threadId))].sort().map((id) => [id]),
  )
  const known = records.map(({ providerSandboxId }) => providerSandboxId)
  expect((await provider.list()).map(({ sandboxId }) => sandboxId).sort()).toEqual(known.sort())
})
