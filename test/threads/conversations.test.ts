import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { EngineProvider } from '@sandkasten/engine'
import { modelNetwork, modelUrl } from '@sandkasten/opencode'
import { openRegistry } from '@sandkasten/registry'
import { agentOpener, openAgents, openThreads, type Threads } from '@sandkasten/threads'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import {
  type ModelServer,
  modelConfig,
  startModelServer,
  steps,
} from '../../packages/opencode/src/testing/model-server.ts'
import { RecordingChat, Transcript } from '../../packages/threads/src/testing/recording-chat.ts'

const missing = await isolationMissing()
const by = { id: 'u1', name: 'Ann' }

/** Real sandboxes, the real opencode inside of them, and a scripted model. The tests build on each other. */
describe.skipIf(missing)(`conversations${missing ?? ''}`, { timeout: 240_000 }, () => {
  let model: ModelServer
  let threads: Threads
  const stack = new AsyncDisposableStack()
  let transcript: () => Transcript
  beforeAll(async () => {
    const root = await mkdtemp(path.join(tmpdir(), 'sk-conversations-'))
    stack.defer(() => rm(root, { recursive: true, force: true, maxRetries: 5 }))
    model = await startModelServer()
    stack.defer(() => model.close())
    const provider = new EngineProvider({ root: path.join(root, 'engine'), prepareNext: false })
    stack.defer(() => provider.close())
    const kinds = [{ provider: provider.name, title: 'Engine', fields: [], make: () => provider }]
    const registry = await openRegistry({ dataDir: root, kinds, defaultProvider: provider.name, env: {} })
    stack.defer(() => registry.close())
    stack.defer(async () => {
      const sandboxes = registry.in({ appId: 'bot', guildId: 'g1' })
      for (const { name } of await sandboxes.list()) await sandboxes.destroy(name, { force: true })
    })
    const agents = openAgents({
      homeFolder: path.join(root, 'home'),
      mode: 'inside',
      config: modelConfig(modelUrl(model)),
    })
    stack.defer(() => agents.close())
    const file = path.join(root, 'chat.jsonl')
    threads = await openThreads({
      appId: 'bot',
      registry,
      agents: agentOpener(agents),
      chat: (posts) => new RecordingChat(file, posts),
      dataDir: root,
      env: {},
      sandboxDefaults: { network: modelNetwork(model), resources: { memoryMb: 2048, vcpus: 2 } },
    })
    stack.defer(() => threads.close())
    await threads.start()
    transcript = () => new Transcript(file)
  }, 120_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  const place = { channelId: 'c1', guildId: 'g1', title: 'new', by }
  const answer = (threadId: string, count: number) =>
    expect
      .poll(
        () =>
          transcript()
            .texts(threadId)
            .filter((text) => /^(done|failed|aborted)/.test(text)),
        {
          timeout: 200_000,
          interval: 200,
        },
      )
      .toHaveLength(count)

  it('answers with opencode in a new sandbox', async () => {
    const bash = (command: string) => ({ tool: 'bash', args: { command, description: 'x' } })
    model.script = steps(bash('git init -q . && echo made > made.txt'), { text: 'It is made.' })
    const sandbox = { create: { name: 'demo' } }
    await threads.begin({ ...place, threadId: 't1', sandbox, message: { id: 'm1', by, text: 'make a file' } })
    await answer('t1', 1)
    expect(transcript().texts('t1')).toEqual(['done: It is made.'])
    expect(await threads.shell('t1', 'cat made.txt', by)).toMatchObject({ output: 'made\n', exitCode: 0 })
    expect(await threads.diff('t1', by)).toContain('+made')
    expect(await threads.get('t1')).toMatchObject({ mode: 'inside', sandbox: 'demo', state: 'ready' })
  })

  it('a fork has the files and the session, and the first thread does not see its changes', async () => {
    model.script = () => ({ text: 'I remember.' })
    const message = { id: 'm2', by, text: 'what did you make?' }
    await threads.begin({ ...place, threadId: 't2', sandbox: { fork: 't1' }, message })
    await answer('t2', 1)
    expect(transcript().texts('t2')).toEqual(['done: I remember.'])
    expect(JSON.stringify(model.requests.at(-1)!.messages)).toContain('make a file')
    await threads.shell('t2', 'cat made.txt && rm made.txt', by)
    expect(await threads.shell('t1', 'cat made.txt', by)).toMatchObject({ output: 'made\n' })
    expect((await threads.get('t2'))?.sandbox).not.toBe('demo')
  })

  it('resumes a stopped sandbox when its thread speaks', async () => {
    await threads.stop({ guildId: 'g1', channelId: 'c1' }, 'demo', by)
    model.script = () => ({ text: 'Back again.' })
    await threads.say({ id: 'm3', threadId: 't1', by, text: 'go on' })
    await answer('t1', 2)
    expect(transcript().texts('t1').at(-1)).toBe('done: Back again.')
    expect(transcript().notices).toContain(
      '“demo” was started again: its processes are gone, and its files are still there.',
    )
    expect(JSON.stringify(model.requests.at(-1)!.messages)).toContain('make a file')
  })
})
