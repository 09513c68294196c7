import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'

import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { pythonWith } from '../python.ts'
import { type FakeModel, startFakeModel } from './fake-model.ts'

const execute = promisify(execFile)
const root = path.resolve(import.meta.dirname, '../..')
const file = (name: string) => path.join(root, 'examples', name)
const answer = 'It printed: 0 1 1 2 3 5 8 13\n'
const hasCurl = existsSync('/usr/bin/curl')

/** The examples as a user runs them, in their own processes, against a real daemon and a fake model. */
describe('examples of the daemon', () => {
  let daemon: TestDaemon
  let model: FakeModel
  beforeAll(async () => {
    daemon = await startTestDaemon()
    model = await startFakeModel()
  })
  afterAll(async () => {
    await model?.stop()
    await daemon?.stop()
  })

  const run = async (cmd: string, args: string[], env: Record<string, string> = {}) => {
    const { stdout } = await execute(cmd, args, {
      cwd: root,
      env: {
        PATH: process.env.PATH,
        SANDKASTEN_URL: daemon.daemon.url,
        SANDKASTEN_API_KEY: daemon.key,
        OPENAI_API_KEY: 'sk-none',
        OPENAI_BASE_URL: model.url,
        OPENAI_AGENTS_DISABLE_TRACING: '1',
        ANTHROPIC_API_KEY: 'sk-none',
        ANTHROPIC_BASE_URL: model.url.replace(/\/v1$/, ''),
        ...env,
      },
    })
    return stdout
  }
  const node = (name: string) => run(process.execPath, ['--conditions=sandkasten-source', file(name)])
  const left = async () => (await daemon.call('GET', '/v1/sessions?status=running')).body.sessions.length

  it.each(['daemon/client', 'daemon/provider'])('%s.ts prints the content of its .out file', async (name) => {
    expect(await node(`${name}.ts`)).toBe(readFileSync(file(`${name}.out`), 'utf8'))
    expect(await left()).toBe(0)
  })

  it('daemon/session.sh works with curl', async ({ skip }) => {
    if (!hasCurl) skip('curl is not installed')
    expect(await run('sh', [file('daemon/session.sh')])).toBe(
      readFileSync(file('daemon/session.out'), 'utf8'),
    )
    expect(await left()).toBe(0)
  })

  const agents = ['ai-sdk', 'claude', 'langchain', 'openai-agents', 'tools/ai-sdk', 'tools/langchain']
  it.each([...agents, 'tools/openai-agents'])(
    'agents/%s.ts writes a script, reads it, runs it, and prints its output',
    async (name) => {
      const before = model.turns
      expect(await node(`agents/${name}.ts`)).toBe(answer)
      expect(model.turns - before).toBe(4)
      expect(await left()).toBe(0)
    },
  )

  const claude = ['anthropic==2.10.0', 'langchain==1.4.7', 'langchain-anthropic==1.7.7']
  it.for([
    ['openai_agents', ['openai-agents==0.24.0']],
    ['claude', claude],
    ['langchain_agent', claude],
  ] as const)('agents/%s.py does the same', { timeout: 300_000 }, async ([name, packages], { skip }) => {
    const found = await pythonWith(...packages)
    if ('missing' in found) return skip(found.missing)
    const PYTHONPATH = path.join(root, 'clients/python')
    const before = model.turns
    expect(await run(found.python, [file(`agents/${name}.py`)], { PYTHONPATH })).toBe(answer)
    expect(model.turns - before).toBe(4)
    expect(await left()).toBe(0)
  })
})
