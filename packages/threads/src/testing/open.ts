import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { openRegistry, type Registry } from '@sandkasten/registry'
import { LocalProvider } from '@sandkasten/sdk/local'
import { onTestFinished } from 'vitest'
import { type OpenThreadsOptions, openThreads } from '../open-threads.ts'
import type { Threads } from '../spec/threads.ts'
import { RecordingChat, Transcript } from './recording-chat.ts'
import { ScriptedAgents } from './scripted-agents.ts'

export const user = { id: 'u1', name: 'Ann' }

export interface TestEngine {
  readonly dataDir: string
  readonly threads: Threads
  readonly registry: Registry
  readonly agents: ScriptedAgents
  readonly chat: RecordingChat
  readonly provider: LocalProvider
  readonly errors: unknown[]
  transcript(): Transcript
  /** Waits until the transcript fits. */
  until(fits: (transcript: Transcript) => unknown): Promise<Transcript>
  close(): Promise<void>
}

export async function newFolder(): Promise<string> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'sk-threads-'))
  onTestFinished(async () => {
    const provider = localIn(dataDir)
    for (const { id } of await provider.list()) await provider.destroy(id)
    await rm(dataDir, { recursive: true, force: true })
  })
  return dataDir
}

export const localIn = (dataDir: string) =>
  new LocalProvider({ root: path.join(dataDir, 'local'), acceptNoIsolation: true })

/** An engine with a real registry and sandboxes that are folders. Several on one folder are like several processes. */
export async function openTestEngine({
  dataDir,
  start = true,
  beforeCreate,
  ...options
}: Partial<OpenThreadsOptions> & {
  dataDir?: string
  start?: boolean
  beforeCreate?: () => Promise<void>
} = {}): Promise<TestEngine> {
  const folder = dataDir ?? (await newFolder())
  const provider = localIn(folder)
  const create = provider.create.bind(provider)
  provider.create = async (given) => {
    await beforeCreate?.()
    return create(given)
  }
  const kinds = [{ provider: 'local', title: 'Local', fields: [], make: () => provider }]
  const registry = await openRegistry({ dataDir: folder, kinds, defaultProvider: 'local', env: {} })
  const agents = new ScriptedAgents(path.join(folder, 'agents'))
  const file = path.join(folder, 'chat.jsonl')
  const errors: unknown[] = []
  let chat: RecordingChat | undefined
  const threads = await openThreads({
    appId: 'bot',
    registry,
    agents,
    chat: (posts) => {
      chat = new RecordingChat(file, posts)
      return chat
    },
    dataDir: folder,
    env: {},
    lookMs: 20,
    retryMs: 5,
    onError: (error) => errors.push(error),
    ...options,
  })
  let isOpen = true
  const close = async () => {
    if (!isOpen) return
    isOpen = false
    await threads.close()
    await registry.close()
  }
  onTestFinished(close)
  if (start) await threads.start()
  const transcript = () => new Transcript(file)
  return {
    ...{ dataDir: folder, threads, registry, agents, provider, errors, close, transcript },
    chat: chat!,
    async until(fits) {
      for (;;) {
        const now = transcript()
        if (fits(now)) return now
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
    },
  }
}

/** A new thread with its first message. */
export function newThread(threadId: string, text?: string, more: object = {}) {
  return {
    threadId,
    channelId: 'c1',
    guildId: 'g1',
    title: 'new',
    by: user,
    sandbox: { create: {} },
    ...(text !== undefined && { message: { id: `${threadId}-1`, by: user, text } }),
    ...more,
  }
}
