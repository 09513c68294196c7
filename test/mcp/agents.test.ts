import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { claudeEnv, opencodeEnv, runAgentProgram } from './agent-programs.ts'
import { type ModelServer, modelServer, type Turn } from './model-server.ts'
import { end, type McpPlace, mcpPlace } from './place.ts'

const missing = await isolationMissing()
/** One white pixel. */
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** What the model asks for; `as` makes an agent’s name of a tool. */
const conversation = (as: (tool: string) => string): Turn[] => [
  {
    tool: as('run_command'),
    input: { cmd: `echo ${png} | base64 -d > a.png; echo from $(hostname); exit 3` },
  },
  { tool: as('write_file'), input: { path: 'notes.md', content: 'alpha\nbeta\n' } },
  { tool: as('edit_file'), input: { path: 'notes.md', oldString: 'beta', newString: 'gamma' } },
  { tool: as('search'), input: { pattern: 'g[a]mma' } },
  { tool: as('read_file'), input: { path: 'a.png' } },
  { tool: as('read_file'), input: { path: 'missing' } },
  { tool: as('run_command'), input: { cmd: 'seq 30000' } },
  { text: 'all done' },
]

/** Real agents with a scripted model use the tools against one sandbox of the engine. */
describe.skipIf(missing)('agents', () => {
  let place: McpPlace
  let project: string
  beforeAll(async () => {
    place = await mcpPlace()
    project = path.join(place.home, 'project')
    await mkdir(project)
  })
  afterAll(() => place?.close())

  const run = (program: string, args: readonly string[], env: Record<string, string>) =>
    runAgentProgram(program, args, { place, project, env })

  /** opencode with the tools, and none of its own. */
  const opencode = async (model: ModelServer) => {
    const { command, args, env: environment } = place.server
    const env = await opencodeEnv(place, model.url, {
      permission: { '*': 'deny', 'sandbox_*': 'allow' },
      mcp: { sandbox: { type: 'local', command: [command, ...args], environment, enabled: true } },
    })
    return run('opencode', ['run', 'go'], { ...env, OPENCODE_DISABLE_PROJECT_CONFIG: '1' })
  }

  const expectConversation = ({ requests }: ModelServer) => {
    expect(requests).toHaveLength(8)
    const texts = requests.at(-1)!.results.map(({ text }) => text)
    expect(texts[0]).toMatch(/^exit=3\nfrom /)
    expect(texts[1]).toMatch(/^Wrote 11 bytes to notes\.md\./)
    expect(texts[2]).toMatch(/^Replaced 1 of 1 in notes\.md, at line 2\./)
    expect(texts[3]).toMatch(/^notes\.md:2: gamma/)
    expect(texts[4]).toMatch(/^a\.png \(image\/png, 70 B\)/)
    expect(texts[5]).toMatch(/missing.*No such file.* list_files\.\s+The sandbox “web” is running\./s)
    expect(texts[6]).toMatch(/^exit=0\n\(output shortened; all of it is in \/tmp\/sandbox-output\/\S+\.txt/)
    expect(texts[6]).toMatch(/\n30000\s*(<system|$)/)
  }

  it('Claude Code', async () => {
    await using model = await modelServer(conversation((tool) => `mcp__sandbox__${tool}`))
    const config = path.join(place.home, 'claude.json')
    await writeFile(config, JSON.stringify({ mcpServers: { sandbox: { type: 'stdio', ...place.server } } }))
    const args = ['--mcp-config', config, '--strict-mcp-config', '--allowedTools', 'mcp__sandbox']
    const { code, output } = await run('claude', ['-p', 'go', ...args], claudeEnv(model.url))
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining('all done') })
    // Its own search for tools would hide ours from the model.
    expect(model.requests[0]!.tools).toContain('mcp__sandbox__run_command')
    expectConversation(model)
    const { results } = model.requests.at(-1)!
    expect(results[4]!.images).toEqual([png])
    expect(results.map(({ isError }) => isError)).toEqual([false, false, false, false, false, true, false])
  }, 120_000)

  it('opencode', async () => {
    await using model = await modelServer(conversation((tool) => `sandbox_${tool}`))
    const { code, output } = await opencode(model)
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining('all done') })
    expect(model.requests[0]!.tools.filter((name) => !name.startsWith('sandbox_'))).toEqual([])
    expectConversation(model)
  }, 120_000)

  it('opencode, when the broker is killed during a tool: the model learns it, and goes on', async () => {
    await place.ok(['exec', 'web', '--', 'rm', '-f', 'begun'])
    await using model = await modelServer([
      { tool: 'sandbox_run_command', input: { cmd: 'touch begun; sleep 1000' } },
      { tool: 'sandbox_status', input: {} },
      { tool: 'sandbox_run_command', input: { cmd: 'pkill sleep; echo works again' } },
      { text: 'all done' },
    ])
    const running = opencode(model)
    await place.ok(['exec', 'web', '--', 'sh', '-c', 'until [ -e begun ]; do sleep 0.1; done'])
    const before = (await place.brokerPid())!
    await end(before, 'SIGKILL')
    const { code, output } = await running
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining('all done') })
    const texts = model.requests.at(-1)!.results.map(({ text }) => text)
    expect(texts[0]).toMatch(/broker .*during this call/)
    expect(texts[1]).toMatch(/programs: 1\n- \w+/)
    expect(texts[2]).toMatch(/^exit=0\nworks again/)
    expect(await place.brokerPid()).not.toBe(before)
  }, 120_000)
})
