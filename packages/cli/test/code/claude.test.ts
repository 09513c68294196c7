import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { keys, onTerminal } from '../sandbox/pty.ts'
import { type ClaudeModel, startClaudeModel } from './claude-model.ts'
import { agentMissing, type Sample, sample } from './sample.ts'

const missing = await agentMissing('@anthropic-ai/claude-code')

/** The real Claude Code in a sandbox of the engine, with a scripted model. The tests build on each other. */
describe.skipIf(missing)('sandkasten code --agent claude', () => {
  let project: Sample
  let model: ClaudeModel
  beforeAll(async () => {
    project = await sample()
    model = await startClaudeModel({
      name: 'Bash',
      input: { command: 'echo by claude > claude.txt', description: 'w' },
    })
  })
  afterAll(async () => {
    await project?.[Symbol.asyncDispose]()
    await model?.[Symbol.asyncDispose]()
  })

  it('runs a prompt, and says that the agent can read a key for plain HTTP', async () => {
    const args = ['-p', 'write a file', '--json', '--agent', 'claude', '--model-url', model.url]
    const env = { ANTHROPIC_API_KEY: 'sk-ant-test' }
    const { code, stdout, stderr } = await project.code([...args, '--credential', 'ANTHROPIC_API_KEY'], {
      env,
    })
    expect(code, stderr).toBe(0)
    expect(stderr).toContain('the agent can read ANTHROPIC_API_KEY')
    expect(JSON.parse(stdout)).toMatchObject({
      agent: 'claude',
      text: 'done',
      sessionId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      files: [{ path: 'claude.txt', change: 'added' }],
    })
    expect([...model.keys]).toEqual(['sk-ant-test'])
  }, 120_000)

  it('continues the session', async () => {
    const seen = model.requests.length
    const env = { ANTHROPIC_API_KEY: 'sk-ant-test' }
    expect((await project.code(['-p', 'go on'])).stderr).toContain('ANTHROPIC_API_KEY is not set')
    const { code, stdout, stderr } = await project.code(['-p', 'go on'], { env })
    expect([code, stdout], stderr).toEqual([0, 'done\n'])
    expect(model.requests[seen]).toContain('write a file')
  })

  it('opens its own interface on a terminal', async () => {
    const env = { ...project.env, ANTHROPIC_API_KEY: 'sk-ant-test' }
    const pty = onTerminal(['code', '--pull', 'no'], env, project.folder)
    // Asked because the agent can read the key. The answer is not ours to give.
    await pty.expect(/use\s*this\s*API\s*key/i)
    await pty.expect(/Enter\s*to\s*confirm/, `\x1b[A${keys.enter}`)
    // The conversation so far.
    await pty.expect(/go\s*on/)
    await pty.expect(/shift\+tab|shortcuts/, 'and now?')
    await pty.expect(/and\s*now\?/, keys.enter)
    await pty.expect('done', '/exit')
    await pty.expect('/exit', keys.enter)
    await pty.expect(/Come back:\s+sandkasten code/)
    await pty.ended()
  })
})
