import type { OpencodeClient } from '@opencode-ai/sdk/v2'
import { EngineProvider } from '@sandkasten/engine'
import { type AgentServer, bootstrapOpencode, runAgent } from '@sandkasten/opencode'
import type { SandboxHandle } from '@sandkasten/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { type Surroundings, sh, surroundings } from './surroundings.ts'

const missing = await isolationMissing()

type Ended = Promise<{ value?: unknown; error?: unknown; at: number }>

/** Something ends in the middle of a prompt. The caller learns of it within seconds, and the session goes on. */
describe.skipIf(missing)(`kills in the middle of a prompt${missing ? ` (${missing})` : ''}`, () => {
  let all: Surroundings
  let handle: SandboxHandle
  let server: AgentServer
  let sessionId: string
  beforeAll(async () => {
    all = await surroundings()
    handle = await all.create()
    server = await bootstrapOpencode(handle, all.options)
    all.model.script = () => ({ text: 'remembered' })
    sessionId = (await runAgent(handle, 'opencode', 'the first prompt', { server })).sessionId!
  }, 120_000)
  afterAll(() => all?.close(), 60_000)

  /** A prompt whose model never answers. Resolves once the model was asked, or the prompt has ended. */
  const prompt = async (options: { timeoutMs?: number; signal?: AbortSignal } = {}) => {
    all.model.script = () => ({ hang: true })
    const asked = all.model.next()
    const run = runAgent(handle, 'opencode', 'never answered', { server, sessionId, ...options })
    const ended: Ended = run.then(
      (value) => ({ value, at: Date.now() }),
      (error) => ({ error, at: Date.now() }),
    )
    // On a busy machine a short time limit is over before opencode asks.
    await Promise.race([asked, ended])
    return { ended }
  }
  const within = async (ms: number, { ended }: { ended: Ended }, kill: () => Promise<unknown>) => {
    const killed = Date.now()
    await kill()
    const { at, ...outcome } = await ended
    expect(at - killed).toBeLessThan(ms)
    return outcome
  }
  const goesOn = async () => {
    all.model.script = ({ messages }) => ({
      text: JSON.stringify(messages).includes('the first prompt') ? 'remembered' : 'forgotten',
    })
    expect(await runAgent(handle, 'opencode', 'go on', { server, sessionId })).toMatchObject({
      text: 'remembered',
    })
  }
  const isIdle = async () => {
    const client: OpencodeClient = await server.client()
    await expect.poll(async () => (await client.session.status()).data).toEqual({})
  }

  it('the caller’s time limit, and the caller’s signal', async () => {
    const limited = await prompt({ timeoutMs: 1500 })
    expect(await within(15_000, limited, async () => {})).toMatchObject({ error: { code: 'timeout' } })
    await isIdle()
    const stop = new AbortController()
    const cancelled = await prompt({ signal: stop.signal })
    expect(await within(10_000, cancelled, async () => stop.abort())).toMatchObject({
      error: { code: 'aborted' },
    })
    await isIdle()
    await goesOn()
  }, 60_000)

  it('opencode', async () => {
    const ended = await prompt()
    const outcome = await within(5000, ended, () => sh(handle, 'pkill -KILL -x opencode'))
    expect(outcome).toMatchObject({ error: { code: 'connection_lost', retryable: false } })
    server = await bootstrapOpencode(handle, all.options)
    expect(server.reused).toBe(false)
    await goesOn()
  }, 60_000)

  it('the connection to the runner, which carries the port: the prompt works on inside', async () => {
    const ended = await prompt()
    const outcome = await within(5000, ended, () => all.provider.close())
    expect(outcome).toMatchObject({ error: { code: 'connection_lost' } })
    all.provider = new EngineProvider({ root: all.root, prepareNext: false })
    handle = await all.provider.get(handle.id)
    const before = server.password
    server = await bootstrapOpencode(handle, { ...all.options, password: before })
    expect(server).toMatchObject({ reused: true, password: before })
    const client: OpencodeClient = await server.client()
    expect((await client.session.status()).data).toMatchObject({ [sessionId]: { type: 'busy' } })
    await client.session.abort({ sessionID: sessionId })
    await goesOn()
  }, 60_000)

  it('the sandbox', async () => {
    const ended = await prompt()
    await using other = new EngineProvider({ root: all.root, prepareNext: false })
    const same = await other.get(handle.id)
    const outcome = await within(5000, ended, () => same.stop())
    expect(outcome).toMatchObject({ error: { code: 'connection_lost' } })
    await expect(bootstrapOpencode(handle, all.options)).rejects.toMatchObject({ code: 'not_running' })
    handle = await all.provider.get(handle.id)
    server = await bootstrapOpencode(handle, all.options)
    await goesOn()
  }, 60_000)

  it('the sandbox, while opencode starts', async () => {
    await server.stop()
    let stopping: Promise<unknown> | undefined
    const boot = bootstrapOpencode(handle, {
      ...all.options,
      onProgress: ({ stage }) => {
        if (stage === 'wait') stopping = handle.stop()
      },
    })
    await expect(boot).rejects.toMatchObject({
      code: expect.stringMatching(/^(not_running|interrupted|unavailable|connection_lost)$/),
    })
    await stopping
    await handle.start()
    server = await bootstrapOpencode(handle, all.options)
    await goesOn()
  }, 60_000)

  it('a snapshot and a fork have the session', async () => {
    const { snapshotId } = await handle.snapshot()
    const [fork] = await handle.fork()
    if (!fork || fork instanceof Error) throw fork ?? new Error('There is no fork.')
    try {
      for (const copy of [await all.create({ snapshotId }), fork]) {
        const twin = await bootstrapOpencode(copy, all.options)
        expect(twin.password).not.toBe(server.password)
        const run = await runAgent(copy, 'opencode', 'go on', { server: twin, sessionId })
        expect(run).toMatchObject({ text: 'remembered' })
        await twin.stop()
      }
    } finally {
      await fork.destroy()
    }
  }, 60_000)
})
