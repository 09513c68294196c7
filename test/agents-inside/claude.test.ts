import { bootstrapAgent, modelNetwork, modelUrl, runAgent } from '@sandkasten/opencode'
import type { SandboxHandle } from '@sandkasten/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import {
  type AnthropicServer,
  startAnthropicServer,
} from '../../packages/opencode/src/testing/anthropic-server.ts'
import { steps } from '../../packages/opencode/src/testing/model-server.ts'
import { type Surroundings, sh, surroundings } from './surroundings.ts'

const missing = await isolationMissing()

/** The second row of the table of agents: the same functions, without a server. */
describe.skipIf(missing)(
  `Claude Code in a sandbox without a network${missing ? ` (${missing})` : ''}`,
  () => {
    let all: Surroundings
    let model: AnthropicServer
    let handle: SandboxHandle
    beforeAll(async () => {
      all = await surroundings()
      model = await startAnthropicServer(() => ({ text: 'done' }))
      handle = await all.create({ network: modelNetwork(model) })
    }, 60_000)
    afterAll(async () => {
      await all?.close()
      await model?.[Symbol.asyncDispose]()
    }, 60_000)

    const options = () => ({
      envVars: { ANTHROPIC_BASE_URL: modelUrl(model) },
      credentials: [{ variable: 'ANTHROPIC_API_KEY', value: 'sk-of-claude-in-this-test' }],
    })

    it('is copied in once, works with tools, and continues a session', async () => {
      const stages: string[] = []
      const installed = await bootstrapAgent(handle, 'claude', {
        ...options(),
        onProgress: ({ stage }) => stages.push(stage),
      })
      expect(installed).toMatchObject({ agent: 'claude', version: '2.1.325', directory: '/workspace' })
      expect(stages).toEqual(['inspect', 'copy', 'ready'])

      const tool = steps({
        tool: 'Bash',
        args: { command: 'echo "made by $(id -un)" > made.txt', description: 'x' },
      })
      model.script = ({ answered }) => tool({ answered } as never)
      const events: string[] = []
      const run = await runAgent(handle, 'claude', 'make a file', {
        ...options(),
        onEvent: (event) => events.push(event.type === 'tool' ? `${event.tool} ${event.status}` : event.type),
      })
      expect(run).toMatchObject({
        text: 'done',
        sessionId: expect.stringMatching(/^[\da-f-]{36}$/),
        error: undefined,
      })
      expect(events).toEqual(['session', 'Bash running', 'text', 'result'])
      expect(await sh(handle, 'cat made.txt')).toBe('made by sandbox\n')
      expect(model.requests.at(-1)).toMatchObject({ key: 'sk-of-claude-in-this-test' })

      model.script = () => ({ text: 'more' })
      const again = await runAgent(handle, 'claude', 'go on', { ...options(), sessionId: run.sessionId })
      expect(again).toMatchObject({ text: 'more', sessionId: run.sessionId })
    }, 90_000)

    it('a time limit ends it, and its own failure is an error of the result', async () => {
      model.script = () => ({ hang: true })
      await expect(
        runAgent(handle, 'claude', 'never', { ...options(), timeoutMs: 4000 }),
      ).rejects.toMatchObject({
        code: 'timeout',
      })
      await expect.poll(() => sh(handle, 'pgrep -c -x claude || true')).toBe('0\n')
      const failed = runAgent(handle, 'claude', 'x', {
        ...options(),
        sessionId: 'no-session',
        timeoutMs: 30_000,
      })
      await expect(failed.then(({ error }) => Promise.reject(new Error(error)))).rejects.toThrow(/session/i)
    }, 60_000)
  },
)
