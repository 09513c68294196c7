import { readFileSync } from 'node:fs'
import path from 'node:path'
import { createOpenAI } from '@ai-sdk/openai'
import { AIMessage, HumanMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'
import { Agent } from '@mastra/core/agent'
import { Workspace } from '@mastra/core/workspace'
import type { SandboxHandle, SandboxProvider } from '@sandkasten/sdk'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { generateText, stepCountIs, tool } from 'ai'
import { createDeepAgent } from 'deepagents'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { sessionOf } from '../../examples/adapters/ai-sdk.ts'
import { SandkastenBackend } from '../../examples/adapters/deepagents.ts'
import { SandkastenSandbox } from '../../examples/adapters/mastra.ts'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { startFakeModel, writeAndRun } from './fake-model.ts'

const folder = path.resolve(import.meta.dirname, '../../examples/adapters')
const script = 'printf "sum %s\\n" $((20 + 22)); echo problem >&2\n'

/** The adapters with the frameworks' real packages, sandboxes of a real daemon, and a scripted model. */
describe('adapters', () => {
  let daemon: TestDaemon
  let provider: SandboxProvider
  let sandbox: SandboxHandle
  beforeAll(async () => {
    daemon = await startTestDaemon()
    provider = new DaemonProvider({ url: daemon.daemon.url, apiKey: daemon.key })
    sandbox = await provider.create()
  })
  afterAll(() => daemon?.stop())

  it.each(['ai-sdk', 'deepagents', 'mastra'])('%s has at most 40 lines', (name) => {
    const text = readFileSync(path.join(folder, `${name}.ts`), 'utf8')
    expect(text.split('\n').filter(Boolean).length).toBeLessThanOrEqual(40)
    expect(text).not.toMatch(/\bany\b(?! provider)/)
  })

  describe('ai-sdk', () => {
    it('runs the tools of an agent', async () => {
      const model = await startFakeModel(writeAndRun)
      const openai = createOpenAI({ baseURL: model.url, apiKey: 'none' })
      const tools = {
        write_file: tool({
          inputSchema: z.object({ path: z.string(), content: z.string() }),
          execute: async (file, { experimental_sandbox: session }) => {
            await session?.writeTextFile(file)
            return 'written'
          },
        }),
        exec: tool({
          inputSchema: z.object({ cmd: z.string() }),
          execute: async ({ cmd }, { experimental_sandbox: session }) =>
            (await session?.run({ command: cmd }))?.stdout,
        }),
      }
      try {
        const { text } = await generateText({
          model: openai.chat('gpt-5.2'),
          prompt: 'Print fibonacci numbers',
          tools,
          experimental_sandbox: sessionOf(sandbox, 'A Linux sandbox.'),
          stopWhen: stepCountIs(5),
        })
        expect(text).toBe('It printed: 0 1 1 2 3 5 8 13')
      } finally {
        await model.stop()
      }
    })

    it('implements the session’s contract', async () => {
      const session = sessionOf(sandbox, 'A Linux sandbox.')
      await session.writeTextFile({ path: 'dir/a.txt', content: 'one\ntwo\nthree\n' })
      expect(await session.readTextFile({ path: 'dir/a.txt', startLine: 2, endLine: 9 })).toBe('two\nthree\n')
      expect(await session.readTextFile({ path: 'dir/a.txt' })).toBe('one\ntwo\nthree\n')
      expect(await session.stat({ path: 'dir/a.txt' })).toMatchObject({ type: 'file', size: 14 })
      expect(await session.listDirectory({ path: 'dir' })).toMatchObject([{ name: 'a.txt', type: 'file' }])
      for (const call of ['readFile', 'readBinaryFile', 'readTextFile', 'stat', 'listDirectory'] as const)
        expect(await session[call]({ path: 'missing' }), call).toBeNull()
      await expect(session.deleteFile({ path: 'dir' })).rejects.toThrow()
      expect(await session.deleteFile({ path: 'dir/a.txt' })).toBe(true)
      expect(await session.deleteFile({ path: 'dir/a.txt' })).toBe(false)
      const cat = await session.spawn({ command: 'cat; exit 3', stdin: true })
      const writer = cat.stdin.getWriter()
      await writer.write(new TextEncoder().encode('in'))
      await writer.close()
      expect([await new Response(cat.stdout).text(), (await cat.wait()).exitCode]).toEqual(['in', 3])
      const abort = new AbortController()
      const sleeper = await session.spawn({ command: 'sleep 1000', abortSignal: abort.signal })
      abort.abort()
      await expect(sleeper.wait()).rejects.toMatchObject({ code: 'aborted' })
      await sleeper.kill()
    })
  })

  it('deepagents: an agent writes a script and runs it', async () => {
    const backend = new SandkastenBackend(sandbox)
    const model = fakeModel()
      .respondWithTools([
        { name: 'write_file', args: { file_path: `${sandbox.workdir}/deep.sh`, content: script } },
      ])
      .respondWithTools([{ name: 'execute', args: { command: 'sh deep.sh' } }])
      .respondWithTools([{ name: 'read_file', args: { file_path: `${sandbox.workdir}/deep.sh` } }])
      .respond(new AIMessage('done'))
    const agent = createDeepAgent({ model, backend })
    const { messages } = await agent.invoke({ messages: [new HumanMessage('Add the numbers')] })
    const results = messages.filter((message) => message.type === 'tool').map(({ text }) => text)
    expect(results[1]).toContain('sum 42\nproblem')
    expect(results[2]).toContain('printf')
    expect(await backend.downloadFiles(['missing', '.'])).toMatchObject([
      { content: null, error: 'file_not_found' },
      { content: null, error: 'is_directory' },
    ])
  })

  it('mastra: an agent runs a command in its workspace', async () => {
    const own = new SandkastenSandbox(provider, 'mastra')
    const model = await startFakeModel([
      { name: 'mastra_workspace_execute_command', args: { command: `sh -c '${script.trim()}'` } },
    ])
    const agent = new Agent({
      id: 'adder',
      name: 'adder',
      instructions: 'You have a Linux sandbox.',
      model: { id: 'openai/gpt-5.2', url: model.url, apiKey: 'none', api: 'chat' },
      workspace: new Workspace({ sandbox: own }),
    })
    try {
      expect((await agent.generate('Add the numbers')).text).toContain('sum 42')
      await own.writeFiles([{ path: 'a.txt', content: 'it’s', mode: 0o600 }])
      const result = await own.executeCommand('printf %s "$NAME";cat', ['a.txt'], {
        env: { NAME: 'x', NO: undefined },
      })
      expect(result).toMatchObject({ stdout: 'xit’s', success: true, exitCode: 0 })
      expect((await provider.list({ name: 'mastra' })).length).toBe(1)
    } finally {
      await own._destroy()
      await model.stop()
    }
    expect((await provider.list({ name: 'mastra', status: 'running' })).length).toBe(0)
  })
})
